/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel types that path.bpf.c uses, with only the fields used. CO-RE relocates the fields by
 * name, so no vmlinux.h is needed.
 */
#ifndef REVEILLE_PATH_KERNEL_H
#define REVEILLE_PATH_KERNEL_H

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	possible_net_t nd_net;
	int ifindex;
};

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	__be16 protocol;
	__u16 network_header;
	unsigned char *head;
	unsigned char *data;
};

struct task_struct {
	unsigned int flags;
	int pid;
	char comm[16];
};

#pragma clang attribute pop

#endif
