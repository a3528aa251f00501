//! What jobs leave behind, looked at where it lies: the results of a job, before they are copied to where somebody wants
//! them. The copy itself is the service's.

mod paths;
mod plan;
mod trouble;

pub use plan::{Item, Plan, Sources, What};
pub use trouble::Trouble;
