//! Every feature at once.

use super::{Facts, Feature, Group, Presence};
use super::{bpf, clock, counting, idling, surroundings, tracepoints, user};
use crate::capabilities::Credentials;
use crate::{Btf, Identity, Idle, Root};

/// All features of the machine below `root`, ordered by group. Of a recorded
/// machine, what depends on the running kernel and user is unknown.
pub fn survey(root: &Root) -> Vec<Feature> {
    of(&Facts {
        root,
        credentials: root.is_live().then(Credentials::of_this_process).flatten(),
        idle: Idle::read(root),
        identity: Identity::read(root),
        btf: Btf::read(root),
    })
}

pub(super) fn of(facts: &Facts) -> Vec<Feature> {
    let mut features = [
        user::features(facts),
        bpf::features(facts),
        tracepoints::features(facts),
        idling::features(facts),
        counting::features(facts),
        clock::features(facts),
        surroundings::features(facts),
    ]
    .concat();
    for feature in &mut features {
        // It is there: the remedy is to be root.
        if matches!(feature.presence, Presence::Denied(_)) && feature.group != Group::User {
            feature.brings = user::AS_ROOT.to_owned();
        }
    }
    features
}

/// Is this process outside of containers? Of a recorded machine it is unknown.
pub fn outside_of_containers(root: &Root) -> Presence {
    surroundings::outside(root)
}
