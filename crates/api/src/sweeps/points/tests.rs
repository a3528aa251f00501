//! Plans and their points.

use super::*;
use crate::sweeps::{Axis, Table};

fn axes(typed: &[&str]) -> Vec<Axis> {
    let axis = |text: &&str| {
        let (name, values) = text.split_once('=').unwrap();
        Axis { name: name.into(), values: values.into() }
    };
    typed.iter().map(axis).collect()
}

fn plan(typed: &[&str]) -> Plan {
    Plan { axes: axes(typed), ..Plan::default() }
}

fn table(text: &str) -> Option<Table> {
    Some(Table::from_csv(text).unwrap())
}

fn random(count: u32, seed: u64) -> Option<Random> {
    Some(Random { count, seed })
}

fn shown(points: Result<Points, BadPlan>) -> String {
    let points = points.unwrap_or_else(|bad| panic!("{bad}"));
    points.rows.iter().map(|row| row.join(",")).collect::<Vec<_>>().join(" ")
}

fn told(plan: Plan) -> String {
    plan.points(1).unwrap_err().to_string()
}

#[test]
fn the_last_axis_changes_first_and_copies_stand_side_by_side() {
    assert_eq!(shown(plan(&["a=1,2", "b=x..y,z"]).points(1)), "1,x..y 1,z 2,x..y 2,z");
    assert_eq!(shown(plan(&["a=1..2"]).points(3)), "1 1 1 2 2 2");
    let seed = plan(&["I=1,2,3,4", "J=linear,quadratic,exotic", "K=banana,rockingchair,airplane"]);
    let points = seed.points(1).unwrap();
    assert_eq!((points.rows.len(), points.names.join("")), (36, "IJK".into()));
    assert_eq!(points.rows[35], ["4", "exotic", "airplane"]);
}

#[test]
fn zip_takes_the_firsts_of_all_then_the_seconds() {
    let zipped = |typed: &[&str]| Plan { zip: true, ..plan(typed) };
    assert_eq!(shown(zipped(&["a=1..3", "b=x,y,z"]).points(2)), "1,x 1,x 2,y 2,y 3,z 3,z");
    assert_eq!(
        told(zipped(&["a=1..3", "b=x,y"])),
        "zip needs equally many values of each: a has 3, b has 2; leave out --zip for each with each"
    );
}

#[test]
fn rows_of_a_table_go_with_the_axes() {
    let from = table("a,b\n1,x\n2,y\n");
    let crossed = Plan { from: from.clone(), ..plan(&["c=7,8"]) };
    assert_eq!(shown(crossed.points(1)), "1,x,7 1,x,8 2,y,7 2,y,8");
    assert_eq!(crossed.points(1).unwrap().names, ["a", "b", "c"]);
    assert_eq!(shown(Plan { zip: true, ..crossed }.points(1)), "1,x,7 2,y,8");
    assert_eq!(shown(Plan { from: from.clone(), ..Plan::default() }.points(1)), "1,x 2,y");
    assert!(told(Plan { from, ..plan(&["b=1"]) }).contains("the parameter b is given twice"));
    let ragged = Table { names: vec!["a".into()], rows: vec![vec![]] };
    assert!(told(Plan { from: Some(ragged), ..Plan::default() }).contains("row 1 has 0 values"));
}

#[test]
fn a_condition_leaves_some_and_is_told_where_it_fails() {
    let only = |typed: &[&str], text: &str| Plan { only: Some(text.into()), ..plan(typed) };
    assert_eq!(shown(only(&["lr=0.1,1", "seed=1..5"], "lr*seed<3").points(1)).split(' ').count(), 7);
    assert_eq!(shown(only(&["a=1..3"], "a != 2").points(2)), "1 1 3 3");
    assert!(told(only(&["a=1..3"], "a > 3")).starts_with("where \"a > 3\" holds for none of 3 points; "));
    assert!(told(only(&["a=1..3"], "b > 3")).contains("character 1: there is no parameter b"));
    assert!(told(only(&["a=0..3"], "1/a > 3")).contains("character 2: this divides by zero, for a=0; "));
    assert!(told(only(&["a=1,x", "b=2"], "a < b")).contains("for a=x b=2"));
}

#[test]
fn bad_plans_are_told() {
    for (plan, error) in [
        (plan(&[]), "the sweep has no parameters; nexus sweep"),
        (plan(&["1a=1"]), "\"1a\" cannot be the name"),
        (plan(&["a-b=1"]), "\"a-b\" cannot be the name"),
        (plan(&["=1"]), "\"\" cannot be the name"),
        (plan(&["a=1", "a=2"]), "a is given twice"),
        (plan(&["a="]), "a: it has no values"),
        (plan(&["a=1..1000", "b=1..1001"]), "that would be 1,001,000 jobs; 1,000,000 at most"),
        (plan(&["a=1..1000000"]), ""),
        (plan(&["lr=log:1e-4..1e-1"]), "lr: log:1e-4..1e-1 is a span without a number of values; lr=log:1e-4..1e-1:5"),
        (Plan { random: random(0, 1), ..plan(&["a=1"]) }, "--random 0 leaves no job"),
        (Plan { random: random(5, 1), ..plan(&["a=1..4"]) }, "5 points are to be drawn, and there are 4; --random 4"),
        (Plan { random: random(1_000_001, 1), ..plan(&["a=lin:0..1"]) }, "1,000,001 jobs"),
        (
            Plan { random: random(3, 1), only: Some("a>2".into()), ..plan(&["a=1..4"]) },
            "there are 2 for which the condition holds",
        ),
        (
            Plan { random: random(3, 1), only: Some("a>2".into()), ..plan(&["a=lin:0..1"]) },
            "only 0 were found for which the condition holds",
        ),
    ] {
        match error {
            "" => assert_eq!(plan.points(1).unwrap().rows.len(), 1_000_000),
            error => assert!(told(plan.clone()).contains(error), "{}", told(plan)),
        }
    }
    assert_eq!(plan(&["a=1"]).points(0), Err(BadPlan::Nothing { option: "-x" }));
    assert_eq!(plan(&["a=1..1000"]).points(1001), Err(BadPlan::TooMany { jobs: 1_001_000 }));
}

#[test]
fn a_seed_draws_the_same_for_ever() {
    let drawn = Plan { random: random(4, 7), ..plan(&["a=1..10", "b=x,y,z"]) };
    assert_eq!(shown(drawn.points(1)), "4,y 4,x 9,x 2,x");
    let spans = Plan { random: random(3, 7), ..plan(&["lr=log:1e-4..1e-1", "p=lin:0..1", "opt=adam,sgd"]) };
    let expected = "0.0503828,0.58293,adam 0.00253431,0.328077,sgd 0.000204494,0.959874,sgd";
    assert_eq!(shown(spans.points(1)), expected);
}

#[test]
fn draws_differ_and_so_do_copies() {
    for seed in 0..50 {
        let plan = |count| Plan { random: random(count, seed), ..plan(&["a=1..4", "b=1..5"]) };
        let apart = |rows: &[Vec<String>]| rows.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(apart(&plan(20).points(1).unwrap().rows), 20);
        assert_eq!(apart(&plan(5).points(4).unwrap().rows), 20, "copies are other points while there are some");
        let rounds = plan(15).points(2).unwrap().rows;
        assert_eq!((apart(&rounds[..15]), apart(&rounds[15..])), (15, 15));
        assert_ne!(rounds[..15], rounds[15..]);
    }
    let spans = Plan { random: random(10, 3), ..plan(&["a=lin:0..1", "b=7"]) };
    let rows = spans.points(3).unwrap().rows;
    assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), 30);
    assert!(rows.iter().all(|row| (0.0..1.0).contains(&row[0].parse::<f64>().unwrap()) && row[1] == "7"));
}

#[test]
fn many_more_points_than_are_drawn_are_no_work() {
    let many: Vec<String> = (0..30).map(|place| format!("p{place}=1..100")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let drawn = Plan { random: random(100, 1), only: Some("p0 > 50".into()), ..plan(&many) };
    let rows = drawn.points(1).unwrap().rows;
    assert!(rows.len() == 100 && rows.iter().all(|row| row[0].parse::<u32>().unwrap() > 50));
    assert_eq!(Plan { only: None, ..drawn }.points(2).unwrap().rows.len(), 200);
}

/// Whatever a plan made by chance is, its points are what they must be.
#[test]
fn as_many_points_as_the_product_each_once() {
    let mut chance = Chance::new(11);
    for _ in 0..300 {
        let lengths: Vec<u128> = (0..1 + chance.below(4)).map(|_| 1 + chance.below(6)).collect();
        let typed: Vec<String> = lengths.iter().enumerate().map(|(at, most)| format!("p{at}=1..{most}")).collect();
        let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        let copies = 1 + chance.below(3) as u32;
        let points = plan(&typed).points(copies).unwrap();
        let product: u128 = lengths.iter().product();
        assert_eq!(points.rows.len() as u128, product * u128::from(copies));
        let apart: BTreeSet<_> = points.rows.iter().collect();
        assert_eq!(apart.len() as u128, product);
        assert!(points.rows.is_sorted(), "single digits sort as they count");
        let bound = chance.below(8);
        let narrowed = Plan { only: Some(format!("p0 <= {bound}")), ..plan(&typed) };
        let expected = product / lengths[0] * bound.min(lengths[0]);
        let found = narrowed.points(copies).map_or(0, |points| points.rows.len());
        assert_eq!(found as u128, expected * u128::from(copies));
    }
}

/// A few kilobytes that would have taken all memory, or hours.
#[test]
fn a_small_plan_asks_for_no_more_than_there_is() {
    let many = |count: usize, values: &str| -> Vec<Axis> {
        (0..count).map(|number| Axis { name: format!("n{number}"), values: values.into() }).collect()
    };
    let large = |plan: Plan, copies| match plan.points(copies) {
        Err(BadPlan::TooLarge { bytes, most }) => assert!(bytes > most),
        other => panic!("{:?}", other.map(|points| points.rows.len())),
    };
    large(plan(&[&format!("a={}", "x".repeat(4000))]), 1_000_000);
    large(Plan { axes: many(150, "1"), ..Plan::default() }, 1_000_000);
    large(Plan { axes: many(30, "1..1000000"), random: random(1, 7), ..Plan::default() }, 1);
    large(Plan { random: random(1_000_000, 7), ..plan(&[&format!("a={}", "x".repeat(4000)), "b=lin:0..1"]) }, 1);
    let names = told(Plan { axes: many(1001, "1"), ..Plan::default() });
    assert_eq!(names, "that would be 1,001 parameters; 1,000 at most");
    let long = vec!["a*a*a*a >= 0"; 500].join(" and ");
    let slow = |plan: Plan| assert!(told(plan).contains("takes too long for 1,000,000 points"));
    slow(Plan { only: Some(long.clone()), ..plan(&["a=1..1000000"]) });
    slow(Plan { only: Some(long), random: random(1_000_000, 7), ..plan(&["a=lin:0..1"]) });
}

#[test]
fn a_large_plan_that_is_meant_is_made() {
    let wide = Plan { zip: true, ..plan(&["a=1..200000", "b=1..200000", "c=200000..1"]) };
    assert_eq!(wide.points(2).unwrap().rows.len(), 400_000);
    let narrowed = Plan { only: Some("a % 3 == 0 and a > 10".into()), ..plan(&["a=1..200000"]) };
    assert_eq!(narrowed.points(1).unwrap().rows.len(), 66_663);
}
