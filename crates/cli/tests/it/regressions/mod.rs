//! Faults of the systems before this one, by their number in the list: none of them comes back.
