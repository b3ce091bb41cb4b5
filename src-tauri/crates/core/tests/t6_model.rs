//! T6 against a naive model (FC12): random sends, switches, refusals, interrupts, rewinds and crashes over simulated CLIs
//! that really hold what they are given; after every step the record is held against what they hold.

#![allow(clippy::expect_used, clippy::panic)]

mod model;

use changeover_core::{
    approval::ApprovalDecision,
    event::{Keeps, Kept},
};
use model::{
    check,
    setup::{providers, real_manners},
    sim::{Anchors, Manner},
    world::{Op, World},
};
use proptest::prelude::*;

fn op() -> impl Strategy<Value = Op> {
    let decision = prop::sample::select(vec![ApprovalDecision::Once, ApprovalDecision::Thread, ApprovalDecision::Deny]);
    let p = 0_u8..3;
    prop_oneof![
        40 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Op::Go { a, b }),
        12 => (1_u8..14).prop_map(Op::Well),
        14 => (p.clone(), any::<u8>(), prop::bool::weighted(0.2)).prop_map(|(provider, len, all)| Op::Send { provider, len, all }),
        1 => Just(Op::Repeat),
        6 => (any::<u8>(), p.clone()).prop_map(|(which, provider)| Op::Again { which, provider }),
        4 => Just(Op::Interrupt),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(which, take)| Op::QueueEdit { which, take }),
        1 => Just(Op::QueueGo),
        1 => p.clone().prop_map(|provider| Op::Choose { provider }),
        2 => decision.prop_map(|decision| Op::Answer { decision }),
        4 => any::<u8>().prop_map(Op::Wait),
        1 => Just(Op::Flush),
        1 => any::<u8>().prop_map(Op::Pin),
        2 => any::<u8>().prop_map(Op::Exclude),
        2 => (p.clone(), any::<u8>()).prop_map(|(provider, b)| Op::Die { provider, b }),
        1 => p.prop_map(|provider| Op::Lose { provider }),
        1 => Just(Op::Stick),
        4 => (0_u8..9).prop_map(|after| Op::Crash { after }),
    ]
}

/// Any declaration, and a CLI that is true to it; more often those with which a session lives long.
fn manner() -> impl Strategy<Value = Manner> {
    let kept = || prop_oneof![3 => Just(Kept::Everything), 2 => Just(Kept::PromptOnly), 1 => Just(Kept::Nothing), 1 => Just(Kept::Unknown)];
    let keeps = (kept(), kept(), kept(), kept(), prop::bool::weighted(0.7)).prop_map(|(a, b, c, d, rewinds)| Keeps {
        failed_unanswered: a,
        failed_answered: b,
        interrupted_unanswered: c,
        interrupted_answered: d,
        rewinds,
    });
    let anchors = prop_oneof![3 => Just(Anchors::Lines), 2 => Just(Anchors::Turns), 1 => Just(Anchors::Never)];
    (keeps, kept(), any::<bool>(), anchors, any::<bool>()).prop_map(
        |(keeps, killed, forks, anchors, says_id_at_once)| Manner { keeps, killed, forks, anchors, says_id_at_once },
    )
}

fn lives(manners: [Manner; 3], budget: u64, seed: u64, ops: &[Op]) {
    let mut world = World::new(manners, budget, seed);
    let run = std::panic::AssertUnwindSafe(|| {
        for op in ops {
            world.op(op);
        }
        check::settles(&mut world, &providers());
    });
    if let Err(panic) = std::panic::catch_unwind(run) {
        // Every try of the shrinking comes by here.
        if std::env::var_os("T6_TRACE").is_some() {
            eprintln!("{}\n", world.trace.join("\n"));
        }
        std::panic::resume_unwind(panic);
    }
}

/// A thousand cases, or more where `PROPTEST_CASES` says so.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(1_000), ..default }
}

proptest! {
    #![proptest_config(config())]

    /// CLIs as the real ones were measured.
    #[test]
    fn t6_holds_for_the_clis_as_measured(
        budget in 0_u64..1_500,
        seed in any::<u64>(),
        ops in prop::collection::vec(op(), 1..110),
    ) {
        lives(real_manners(), budget, seed, &ops);
    }

    /// CLIs of every kind that can be declared.
    #[test]
    fn t6_holds_for_every_declaration(
        manners in [manner(), manner(), manner()],
        budget in 0_u64..1_500,
        seed in any::<u64>(),
        ops in prop::collection::vec(op(), 1..110),
    ) {
        lives(manners, budget, seed, &ops);
    }
}
