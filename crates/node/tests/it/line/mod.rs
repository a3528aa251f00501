//! Nodes in processes of their own, behind a line of two pipes.

pub mod connection;
mod login;
mod logs;
mod nodes;
mod runs;
mod streams;

pub use connection::serve;
