// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The lab's C2 and C3 return at once, since QEMU has nothing to read that halts a CPU: an idle
 * guest would keep a CPU of its host busy, and, as the emulator runs its CPUs in turns, hold up its
 * other CPU. With this they halt as C1 does.
 */
#include <linux/cpuidle.h>
#include <linux/module.h>

/* acpi_idle's states are POLL, C1, C2, C3. */
enum { C1 = 1 };

static int (*enter)(struct cpuidle_device *, struct cpuidle_driver *, int);

static __cpuidle int as_c1(struct cpuidle_device *device, struct cpuidle_driver *driver, int index)
{
	enter(device, driver, C1);
	return index;
}

static int __init halts_init(void)
{
	struct cpuidle_driver *driver = cpuidle_get_driver();
	int index;

	if (!driver || driver->state_count <= C1)
		return -ENODEV;
	enter = driver->states[C1].enter;
	for (index = C1 + 1; index < driver->state_count; index++) {
		driver->states[index].enter = as_c1;
		/* So that an offline CPU halts, too: it goes to the deepest state that has one. */
		driver->states[index].enter_dead = NULL;
	}
	return 0;
}

/* Without an exit, since a CPU may be in it. */
module_init(halts_init);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("C2 and C3 halt");
