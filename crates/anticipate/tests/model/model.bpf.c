// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The model as the kernel runs it, for the tests: observes one I/O and predicts another. */
#include <stdbool.h>
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "model.h"

struct step {
	__u32 observed_sectors;
	__u32 predicted_sectors;
	__u64 observed_ns;
	/* All 0 if unknown. */
	struct prediction prediction;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct model);
} models SEC(".maps");

SEC("syscall")
int observe_and_predict(struct step *step)
{
	struct prediction prediction = {};
	__u32 first = 0;
	struct model *model = bpf_map_lookup_elem(&models, &first);

	if (!model)
		return 1;
	model_observe(model, step->observed_sectors, step->observed_ns);
	model_predict(model, step->predicted_sectors, &prediction);
	step->prediction = prediction;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
