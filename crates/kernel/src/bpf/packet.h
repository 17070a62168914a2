/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The headers of a packet, as the programs of several crates read them.
 */
#ifndef REVEILLE_PACKET_H
#define REVEILLE_PACKET_H

#include "kernel.h"
#include <bpf/bpf_endian.h>

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_ICMP 1
#define IPPROTO_ICMPV6 58
/* More fragments, or an offset (include/net/ip.h). */
#define FRAGMENT 0x3fff

/* Fields of a packet's headers. */
struct headers {
	/* The transport's first 8 bytes. */
	union {
		unsigned long long transport;
		struct {
			__u16 source;
			__u16 destination;
		} ports;
		struct {
			__u8 type;
			__u8 code;
			__u16 checksum;
			__u16 identifier;
			__u16 sequence;
		} icmp;
	};
	__u8 family;
	__u8 protocol;
	bool fragment;
};

/* `ip`: the network header; `protocol`: skb->protocol. */
static __always_inline bool read_headers(const unsigned char *ip, __u16 protocol,
					 struct headers *headers)
{
	unsigned char header[10];
	unsigned int length;

	if (bpf_probe_read_kernel(header, sizeof(header), ip))
		return false;
	headers->fragment = false;
	if (protocol == bpf_htons(ETH_P_IP)) {
		headers->family = 4;
		headers->protocol = header[9];
		headers->fragment = ((header[6] << 8) | header[7]) & FRAGMENT;
		length = (header[0] & 15) * 4;
	} else if (protocol == bpf_htons(ETH_P_IPV6)) {
		/* Packets with extension headers do not match. */
		headers->family = 6;
		headers->protocol = header[6];
		length = 40;
	} else {
		return false;
	}
	return !bpf_probe_read_kernel(&headers->transport, sizeof(headers->transport), ip + length);
}

static __always_inline bool is_echo(const struct headers *headers, __u8 icmp, __u8 icmp6)
{
	return (headers->protocol == IPPROTO_ICMP && headers->family == 4 &&
		headers->icmp.type == icmp) ||
	       (headers->protocol == IPPROTO_ICMPV6 && headers->family == 6 &&
		headers->icmp.type == icmp6);
}

static __always_inline bool is_echo_request(const struct headers *headers)
{
	return is_echo(headers, 8, 128);
}

static __always_inline bool is_echo_reply(const struct headers *headers)
{
	return is_echo(headers, 0, 129);
}

/* The identifier and the number of the echo reply that a packet is; 0: it is none. */
static __always_inline __u32 echo_reply(const unsigned char *ip, __u16 protocol)
{
	struct headers headers;

	if (!read_headers(ip, protocol, &headers) || headers.fragment || !is_echo_reply(&headers))
		return 0;
	return (__u32)bpf_ntohs(headers.icmp.identifier) << 16 | bpf_ntohs(headers.icmp.sequence);
}

#endif
