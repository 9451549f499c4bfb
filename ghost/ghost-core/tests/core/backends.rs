use ghost_core::{Action, BackendTarget, Backends};
use proptest::prelude::*;

use crate::support::compiled_rule;

fn backends(weights: &[u32]) -> Backends {
    let document: Vec<_> = weights
        .iter()
        .map(|weight| format!(r#"{{"service": "ns/svc{weight}", "port": 80, "weight": {weight}}}"#))
        .collect();
    from_json(&document.join(","))
}

fn from_json(list: &str) -> Backends {
    match &compiled_rule(&format!(r#"{{"backends": [{list}]}}"#)).action {
        Action::Backends(backends) => backends.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn backend_ref_compiles_to_a_pool_or_a_status() {
    let all = from_json(r#"{"service": "ns/a", "port": 80}, {"status": 503}, {}"#);
    let targets: Vec<_> = all.all().iter().map(|backend| backend.target.clone()).collect();
    assert_eq!(
        targets,
        [
            BackendTarget::Pool("ns/a:80".into()),
            BackendTarget::Status(503),
            BackendTarget::Status(500)
        ]
    );
}

#[test]
fn backends_without_weight_pick_nothing() {
    assert_eq!(backends(&[]).pick(7), None);
    assert_eq!(backends(&[0, 0]).pick(u64::MAX), None);
}

#[test]
fn extreme_random_numbers_pick_weighted_backends() {
    let three = backends(&[0, 1, 3]);
    assert_eq!(three.pick(0), Some(1));
    assert_eq!(three.pick((u64::MAX >> 2) + 1), Some(2));
    assert_eq!(three.pick(u64::MAX), Some(2));
}

proptest! {
    #[test]
    fn shares_are_proportional_to_weights(weights in prop::collection::vec(0_u32..50, 1..8)) {
        let total: u32 = weights.iter().sum();
        prop_assume!(total > 0);
        let all = backends(&weights);
        let mut picked = vec![0; weights.len()];
        // One ticket in the middle of each unit of weight.
        for unit in 0..u64::from(total) {
            let random = (u128::from(2 * unit + 1) << 63) / u128::from(total);
            picked[all.pick(u64::try_from(random).unwrap()).unwrap()] += 1;
        }
        prop_assert_eq!(picked, weights);
    }
}
