//! Where to place a job so that the fewest useless GPU fragments remain.
//!
//! Promises:
//! - Integers alone: the same machines and shapes give the same costs on every computer.
//! - No overflow for up to 64 models, 1,000,000 GPUs and 128 GPUs a machine.
//!
//! The rule: a job goes where four kinds of loss, all in GPU milli, grow least in sum.
//! 1. Fragments: free milli which a shape of job that is common here could not use on this
//!    machine, averaged over the shapes by how often they come.
//! 2. Stranding: free milli beyond what the CPU and the memory left on the machine can carry
//!    at the mean need per GPU of all shapes. Fragments alone see only the next job; they
//!    notice too late that a machine runs out of CPU with several GPUs still free.
//! 3. Holes: what the rest of a shared GPU is worth, if the shares that come are put together
//!    as well as they can be (see `worth_of_holes`). Weighs most: a bad match stays for good.
//! 4. Rent: GPUs of a model that some jobs insist on cost more, the scarcer they are at the
//!    moment, so that jobs without a wish stay off them.
//!
//! The sum is rounded to coarse steps. That is deliberate: differences below a step are noise
//! of the estimate, and the tie-break by rank then fills machines one after another.

use std::collections::BTreeMap;

/// One GPU, in the unit of sharing.
pub const GPU: i64 = 1000;
/// Shares of shapes are counted in parts of this; a power of two only for cheap division.
const WHOLE: i64 = 1 << 20;
/// Width of a step of the score in GPU milli. Results are flat from 20 to 80.
const STEP: i64 = 40;
/// Weight of the loss in holes. Results are flat from 6 to 64; below 4 bad matches slip in.
const HOLES: i64 = 8;
/// So many sizes of shares are put in the best order of pricing; rarer ones come after them.
const SIZES: usize = 32;
/// Sizes of shares are priced rounded up to this; finer ones would only price the noise.
const GRAIN: usize = 10;
/// At most so many passes over the order of pricing; two are usual.
const PASSES: usize = 8;
/// A model is at most this many times dearer than its share of the demand (bounds the sums).
const DEAREST: i64 = 64;
/// Models are numbered below this.
pub const MODELS: usize = 64;

/// What a job asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Number of GPUs; 0 = a job for the CPU alone.
    pub gpus: u16,
    /// Milli of each of them; all of it where it is not shared.
    pub milli: u16,
    /// CPU in milli cores.
    pub cpus: u32,
    pub ram_mib: u64,
    /// Bit m set = model m is allowed.
    pub models: u64,
}

/// What is left on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub cpus: u32,
    pub ram_mib: u64,
    /// Below `MODELS`.
    pub model: u8,
    /// Free milli of each GPU.
    pub gpus: Vec<u16>,
}

impl Shape {
    /// Milli which each of the GPUs must have free.
    fn each(&self) -> i64 {
        if self.gpus == 0 { 0 } else { i64::from(self.milli).min(GPU) }
    }

    /// Milli of all its GPUs together.
    pub fn total(&self) -> i64 {
        i64::from(self.gpus) * self.each()
    }
}

impl Left {
    pub fn free(&self) -> i64 {
        self.gpus.iter().map(|g| i64::from(*g)).sum()
    }

    /// How many GPUs have at least `each` free, and the free milli of these.
    fn usable(&self, each: i64) -> (usize, i64) {
        self.gpus.iter().map(|g| i64::from(*g)).filter(|g| *g >= each).fold((0, 0), |sum, g| (sum.0 + 1, sum.1 + g))
    }

    fn take(&mut self, shape: &Shape, gpus: &[usize]) {
        self.cpus = self.cpus.saturating_sub(shape.cpus);
        self.ram_mib = self.ram_mib.saturating_sub(shape.ram_mib);
        for gpu in gpus {
            self.gpus[*gpu] = self.gpus[*gpu].saturating_sub(shape.each() as u16);
        }
    }
}

/// Shapes that ask for the same GPUs and differ only in CPU, so that one look at the GPUs and
/// one search by CPU answers for all of them.
#[derive(Clone, Debug)]
struct Class {
    gpus: usize,
    each: i64,
    models: u64,
    /// CPU needs, rising, each with the share of all shapes of this class up to it.
    upto: Vec<(u32, i64)>,
}

/// Shapes with the same wish for models, and their share of the demand for GPUs.
#[derive(Clone, Copy, Debug)]
struct Wish {
    models: u64,
    demand: i64,
}

/// What the jobs of this cluster look like.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    classes: Vec<Class>,
    wishes: Vec<Wish>,
    /// Mean need per GPU of the jobs that use GPUs.
    cpus_per_gpu: i64,
    ram_per_gpu: i64,
    /// Worth of a GPU by its free milli, in parts of `WHOLE` of a GPU; empty = no shares known.
    worth: Vec<i64>,
}

impl Shapes {
    /// From how often each shape comes. Jobs without GPUs count too: they make every fragment
    /// a little more useless, which is true, and equally on all machines.
    pub fn new(counts: &[(Shape, u64)]) -> Shapes {
        let jobs: i128 = counts.iter().map(|c| i128::from(c.1)).sum();
        let sum = |of: &dyn Fn(&Shape) -> i128| -> i128 {
            counts.iter().filter(|c| c.0.gpus > 0).map(|c| of(&c.0) * i128::from(c.1)).sum()
        };
        let milli = sum(&|s| i128::from(s.total()));
        if jobs == 0 || milli == 0 {
            return Shapes::default();
        }
        let mut sizes: BTreeMap<usize, i64> = BTreeMap::new();
        let mut classes: BTreeMap<(i64, u16, u64), BTreeMap<u32, i64>> = BTreeMap::new();
        let mut wishes: BTreeMap<u64, i128> = BTreeMap::new();
        for (shape, count) in counts.iter().filter(|c| c.0.gpus > 0) {
            let share = (i128::from(*count) * i128::from(WHOLE) / jobs) as i64;
            let class = classes.entry((shape.each(), shape.gpus, shape.models)).or_default();
            *class.entry(shape.cpus).or_default() += share;
            if shape.gpus == 1 && shape.each() > 0 {
                *sizes.entry((shape.each() as usize).next_multiple_of(GRAIN)).or_default() += share;
            }
            *wishes.entry(shape.models).or_default() += i128::from(*count) * i128::from(shape.total());
        }
        let demand = |sum: i128| (sum * i128::from(WHOLE) / milli) as i64;
        Shapes {
            classes: classes.into_iter().map(|(key, cpus)| Class::new(key, &cpus)).collect(),
            wishes: wishes.into_iter().map(|(models, sum)| Wish { models, demand: demand(sum) }).collect(),
            cpus_per_gpu: (sum(&|s| i128::from(s.cpus)) * i128::from(GPU) / milli) as i64,
            ram_per_gpu: (sum(&|s| i128::from(s.ram_mib)) * i128::from(GPU) / milli) as i64,
            worth: worth_of_holes(&sizes),
        }
    }

    /// How much more is lost on this machine once the shape has these GPUs of it, in parts of `WHOLE` of a milli.
    pub fn cost(&self, left: &Left, shape: &Shape, gpus: &[usize]) -> i64 {
        let mut after = left.clone();
        after.take(shape, gpus);
        self.lost(&after) - self.lost(left)
    }

    /// Milli lost on a machine as it is, without rent, in parts of `WHOLE`.
    fn lost(&self, left: &Left) -> i64 {
        let free = left.free();
        let mut used = 0;
        // Classes lie in order of `each`, so that the GPUs are counted once for each size.
        let (mut each, mut usable) = (-1, (0, 0));
        for class in &self.classes {
            if class.each != each {
                (each, usable) = (class.each, left.usable(class.each));
            }
            used += class.use_of(left, usable);
        }
        let short = |have: i64, per_gpu: i64| if per_gpu == 0 { 0 } else { (free - have * GPU / per_gpu).max(0) };
        let by_cpus = short(i64::from(left.cpus), self.cpus_per_gpu);
        let by_ram = short(left.ram_mib as i64, self.ram_per_gpu);
        let worth: i64 = left.gpus.iter().filter_map(|gpu| self.worth.get(usize::from(*gpu))).sum();
        (free + by_cpus + by_ram) * WHOLE - used - HOLES * GPU * worth
    }

    /// Rent of one milli of each model, in parts of `WHOLE`, from the milli free of each model.
    ///
    /// Every wish spreads its share of the demand over the models it allows; where these hold
    /// less than that share of what is free, somebody without the wish would be in the way.
    pub fn rent(&self, free: &[i64; MODELS]) -> [i64; MODELS] {
        let mut rent = [0; MODELS];
        let all: i64 = free.iter().sum();
        for wish in &self.wishes {
            let allowed = |model: &usize| wish.models >> *model & 1 == 1;
            let open: i64 = (0..MODELS).filter(allowed).map(|model| free[model]).sum();
            let open = open.max(all / DEAREST).max(1);
            for model in (0..MODELS).filter(allowed) {
                rent[model] += wish.demand * all / open - wish.demand;
            }
        }
        rent
    }
}

impl Class {
    fn new(key: (i64, u16, u64), cpus: &BTreeMap<u32, i64>) -> Class {
        let mut sum = 0;
        let mut upto = Vec::with_capacity(cpus.len());
        for (need, share) in cpus {
            sum += share;
            upto.push((*need, sum));
        }
        Class { each: key.0, gpus: usize::from(key.1), models: key.2, upto }
    }

    /// Milli this class could use on the machine, times the share of its shapes that could;
    /// `usable` = number and free milli of the GPUs with enough left for it.
    fn use_of(&self, left: &Left, usable: (usize, i64)) -> i64 {
        if usable.0 < self.gpus || self.models >> left.model & 1 == 0 {
            return 0;
        }
        let carried = self.upto.partition_point(|(need, _)| *need <= left.cpus);
        if carried == 0 { 0 } else { usable.1 * self.upto[carried - 1].1 }
    }
}

/// A size of share in milli, and how often it comes.
type Size = (usize, i64);

/// Worth of a GPU by its free milli (index 0 to `GPU`), in parts of `WHOLE` of a GPU.
///
/// Each size gets a price such that no set of sizes that goes on one GPU is worth more than the
/// GPU; a hole is worth the best set that goes into it. With the highest prices of that kind
/// (times how often the sizes come) this is the dual of the best packing of the shares: a share
/// put where the worth falls by just its price belongs to a best packing. Example: if 810s are
/// common, each is priced a whole GPU, and a hole of 190 is worth nothing.
fn worth_of_holes(sizes: &BTreeMap<usize, i64>) -> Vec<i64> {
    let mut order: Vec<Size> = sizes.iter().map(|(size, count)| (*size, *count)).collect();
    order.sort_by_key(|(size, count)| (-*count, *size));
    let searched = order.len().min(SIZES);
    let mut best = priced(&order);
    for _ in 0..PASSES {
        let start = best.0;
        for from in 1..searched {
            for to in 0..from {
                order[to..=from].rotate_right(1);
                let other = priced(&order);
                if other.0 > best.0 {
                    best = other;
                } else {
                    order[to..=from].rotate_left(1);
                }
            }
        }
        if best.0 == start {
            break;
        }
    }
    best.1
}

/// Prices the sizes in this order, each as high as those before it allow. Returns the sum of
/// prices times counts, and the worth of a hole of each size.
fn priced(order: &[Size]) -> (i128, Vec<i64>) {
    let gpu = GPU as usize;
    let mut worth = vec![0; gpu + 1];
    let mut sum = 0;
    for (size, count) in order {
        // With k of this size on a GPU the rest holds what is priced already.
        let most = |k: usize| (WHOLE - worth[gpu - k * size]) / k as i64;
        let price = (1..=gpu / size).map(most).min().unwrap_or(0);
        sum += i128::from(*count) * i128::from(price);
        if price > 0 {
            // In rising order, so that a hole may hold the size several times.
            for hole in *size..=gpu {
                worth[hole] = worth[hole].max(worth[hole - size] + price);
            }
        }
    }
    (sum, worth)
}

/// Rounded to the nearest step.
pub fn coarse(cost: i64) -> i64 {
    (cost + STEP * WHOLE / 2).div_euclid(STEP * WHOLE)
}
#[cfg(test)]
mod tests {
    use super::*;

    fn share(milli: u16) -> Shape {
        Shape { gpus: 1, milli, cpus: 4, ram_mib: 8_192, models: u64::MAX }
    }

    fn machine(gpus: &[u16]) -> Left {
        Left { cpus: 96, ram_mib: 393_216, model: 0, gpus: gpus.to_vec() }
    }

    #[test]
    fn no_set_of_sizes_on_a_gpu_is_worth_more_than_the_gpu() {
        let sizes = BTreeMap::from([(810, 1047), (470, 750), (320, 328), (650, 253), (230, 140), (1000, 3911)]);
        let worth = worth_of_holes(&sizes);
        assert_eq!(worth[1000], WHOLE);
        assert!((0..=1000).all(|hole| worth[hole] + worth[1000 - hole] <= WHOLE));
        assert!(worth.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!((worth[190], worth[470]), (0, WHOLE / 2), "beside 810 there is room for nothing, two of 470 fit");
    }

    #[test]
    fn a_share_costs_least_where_it_fills_a_hole() {
        let shapes = Shapes::new(&[(share(500), 5), (share(1000), 5)]);
        let (empty, half) = (machine(&[1000, 1000]), machine(&[1000, 500]));
        let into_a_hole = shapes.cost(&half, &share(500), &[1]);
        assert!(into_a_hole < shapes.cost(&half, &share(500), &[0]));
        assert!(into_a_hole < shapes.cost(&empty, &share(500), &[0]));
    }

    #[test]
    fn a_model_that_others_insist_on_has_its_rent() {
        let shapes = Shapes::new(&[(share(1000), 1), (Shape { models: 1, ..share(1000) }, 1)]);
        let mut free = [0; MODELS];
        (free[0], free[1]) = (8_000, 16_000);
        let rent = shapes.rent(&free);
        assert!(rent[0] > rent[1], "{} and {}", rent[0], rent[1]);
    }

    #[test]
    fn a_job_for_much_cpu_costs_least_where_cpu_is_plenty() {
        let shapes = Shapes::new(&[(Shape { cpus: 12, ..share(1000) }, 1)]);
        let job = Shape { gpus: 0, milli: 0, cpus: 40, ram_mib: 0, models: u64::MAX };
        let rich = Left { cpus: 200, ..machine(&[1000; 8]) };
        assert!(shapes.cost(&rich, &job, &[]) < shapes.cost(&machine(&[1000; 8]), &job, &[]));
    }
}
