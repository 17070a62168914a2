/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long a block I/O takes, learnt online: one model for each device, operation and depth.
 *
 * A line in the I/O's size, by least squares with forgetting. The noise of a device grows with the
 * time that an I/O takes, so errors are relative: each I/O has the weight of the square of
 * (time at the mean size / its predicted time), and what it differs from the prediction is a share
 * of the smaller of the two, `err`: twice as long and half as long are the same error, 1.
 *
 * Times have heavy tails. What is learnt from an I/O is clipped at a multiple of the spread, which
 * is the median of the errors (Huber's M-estimator; P. J. Huber, Robust Statistics, chapter 7). A
 * device that changed is one whose I/Os are clipped on the same side many times in a row: then the
 * model begins anew.
 *
 * Quantiles, the spread among them, are followed by steps: up by p, down by 1 - p, in proportion to
 * the spread (H. Robbins, S. Monro, A stochastic approximation method, 1951).
 *
 * For BPF: no floating point, no signed division, no loops. Who calls model_observe() sees to it
 * that no other CPU does so with the same model at once. model_predict() may meet a model while it
 * is written, and then gives a prediction that is worse but in order and in range.
 *
 * The including file has <stdbool.h>, __u32, __u64, __s64 and __always_inline.
 */
#ifndef REVEILLE_MODEL_H
#define REVEILLE_MODEL_H

/* Larger or longer ones are refused: 32 MiB, 17 s. */
#define MODEL_MOST_SECTORS (1ULL << 16)
#define MODEL_MOST_NS (1ULL << 34)

/* I/Os before the first prediction, and after a change. */
#define MODEL_FEWEST 16
/* I/Os that the line remembers, as a power of two: 64. */
#define MODEL_MEMORY_SHIFT 6
/* I/Os that the correlation remembers. */
#define MODEL_SEEN_MEMORY 256
/* So many clipped on the same side in a row are a change. With one I/O in ten out of the way, it
 * is seen where there is none once in 10^12. */
#define MODEL_CHANGE 12

/* Sizes are kept in 2^-8 sectors, mean times in 2^-8 ns. */
#define MODEL_FINE 8
/* Factors in 2^-16. */
#define MODEL_ONE 65536ULL
/* Errors are shares of a time, in 2^-20. */
#define MODEL_SHARE_SHIFT 20
#define MODEL_WHOLE (1ULL << MODEL_SHARE_SHIFT)
/* Errors are at most 255: no clip is beyond, and all products of shares fit. */
#define MODEL_MOST_ERR ((MODEL_WHOLE << 8) - MODEL_WHOLE)
/* The spread that a new model supposes; and the least, so that a device without noise is not taken
 * for changed by a nanosecond. */
#define MODEL_FIRST_SPREAD (MODEL_WHOLE / 4)
#define MODEL_LEAST_SPREAD (MODEL_WHOLE / 256)
#define MODEL_MOST_SPREAD (MODEL_WHOLE * 16)
/* The clip in spreads. The spread is 0.67 standard deviations where the noise is normal, so this is
 * Huber's usual 1.345 standard deviations. */
#define MODEL_CLIP 2
/* Beyond this an I/O is out of the way, and counts no further in the correlation: four standard
 * deviations. */
#define MODEL_FAR 6
/* ns per sector, 2^-12: a slope is at most 16 ms per sector. */
#define MODEL_SLOPE_SHIFT 12
#define MODEL_MOST_SLOPE (1ULL << (24 + MODEL_SLOPE_SHIFT))

/* All zero is a new one. */
struct model {
	/* I/Os that were learnt from, and such that were refused: no size, no time, or absurd ones.
	 */
	__u64 count;
	__u64 refused;
	/* The line, of the I/Os remembered. Sum of weights; weights are in 2^-16. */
	__u64 weight;
	__u64 mean_sectors; /* 2^-8 sectors */
	__u64 mean_ns;	    /* 2^-8 ns */
	__u64 var_sectors;  /* 2^-8 sectors^2 */
	__s64 cov;	    /* 2^-8 sectors ns */
	/* For the correlation: without weights, with a longer memory. */
	__u64 seen_sectors;	/* mean, 2^-8 sectors */
	__u64 seen_ns;		/* mean, 2^-8 ns */
	__u64 seen_var_sectors; /* 2^-8 sectors^2 */
	__u64 seen_var_ns;	/* ns^2 */
	__s64 seen_cov;		/* 2^-8 sectors ns */
	/* I/Os since the model was new or began anew; stops at 2^16. */
	__u32 age;
	/* Median of the errors, 2^-20. */
	__u32 spread;
	/* Quantiles of the errors, 2^-20: an I/O in twenty is done before ns / (1 + early), one in
	 * ten after ns * (1 + late). */
	__u32 early;
	__u32 late;
	/* I/Os clipped in a row at the far limit: above 0 too long, below too short. */
	__s32 run;
	/* Times that the model began anew. */
	__u32 changes;
};

struct prediction {
	__u64 ns;	/* from issue to completion, 1 to 2^34 */
	__u64 early_ns; /* the 5 % quantile; not above ns */
	__u64 late_ns;	/* the 90 % quantile; not below ns, at most 2^34 */
};

/* What the line says of a size. */
struct model_line {
	__u64 ns;
	/* sqrt of the weight, 2^-12 */
	__u64 root;
	/* Is the size near enough to what was seen? */
	bool known;
};

static __always_inline __u64 model_distance(__u64 a, __u64 b)
{
	return a > b ? a - b : b - a;
}

/* value * factor / 2^16, for any value below 2^63 and a factor up to 2^16 */
static __always_inline __u64 model_scaled(__u64 value, __u64 factor)
{
	return (value >> 16) * factor + (((value & 0xffff) * factor) >> 16);
}

static __always_inline __u64 model_magnitude(__s64 value)
{
	return value < 0 ? -(__u64)value : (__u64)value;
}

/* The mean moves by the factor's share towards the value. */
static __always_inline __u64 model_mean(__u64 mean, __u64 value, __u64 factor)
{
	__u64 step = model_scaled(model_distance(value, mean), factor);

	return value > mean ? mean + step : mean - step;
}

/* Variances: (1 - f) (var + f d^2), which is exact where d is from the mean before it moved. */
static __always_inline __u64 model_var(__u64 var, __u64 square, __u64 factor)
{
	var += model_scaled(square, factor);
	return var - model_scaled(var, factor);
}

static __always_inline __s64 model_cov(__s64 cov, __u64 product, bool negative, __u64 factor)
{
	__s64 step = model_scaled(product, factor);

	cov += negative ? -step : step;
	step = model_scaled(model_magnitude(cov), factor);
	return cov < 0 ? cov + step : cov - step;
}

static __always_inline void model_line(const struct model *m, __u32 sectors,
				       struct model_line *line)
{
	__u64 size = (__u64)sectors << MODEL_FINE;
	__u64 mean_sectors = m->mean_sectors;
	__u64 from = model_distance(size, mean_sectors);
	__u64 mean_ns = m->mean_ns >> MODEL_FINE;
	__u64 var = m->var_sectors;
	__s64 cov = m->cov;
	__u64 slope = 0, rise, far, memory;

	/* Not falling: no device is faster for more, but noise can look like that. */
	if (cov > 0 && var) {
		if ((__u64)cov >> (63 - MODEL_SLOPE_SHIFT))
			slope = ((__u64)cov / var) << MODEL_SLOPE_SHIFT;
		else
			slope = ((__u64)cov << MODEL_SLOPE_SHIFT) / var;
		if (slope > MODEL_MOST_SLOPE)
			slope = MODEL_MOST_SLOPE;
	}
	rise = (slope * from) >> (MODEL_SLOPE_SHIFT + MODEL_FINE);
	if (size >= mean_sectors)
		line->ns = mean_ns + rise;
	else
		line->ns = mean_ns > rise ? mean_ns - rise : 0;
	if (line->ns > MODEL_MOST_NS)
		line->ns = MODEL_MOST_NS;
	/* An I/O takes a sixteenth of the mean at least. */
	if (line->ns < mean_ns >> 4)
		line->ns = mean_ns >> 4;
	if (!line->ns)
		line->ns = 1;
	line->root = (mean_ns << 12) / line->ns;
	if (line->root > 1 << 14)
		line->root = 1 << 14;
	if (!line->root)
		line->root = 1;
	/*
	 * The line's relative error from its slope's is about spread * far / sqrt(memory * var):
	 * more than the spread itself is not known.
	 */
	far = (from * line->root) >> 12;
	memory = m->age < 1 << MODEL_MEMORY_SHIFT ? m->age : 1 << MODEL_MEMORY_SHIFT;
	line->known = (far * far) >> MODEL_FINE <= memory * var;
}

/* ns * (1 + share), at most MODEL_MOST_NS */
static __always_inline __u64 model_longer(__u64 ns, __u64 share)
{
	/* 2^34 * 2^28 */
	ns = (ns * (MODEL_WHOLE + share)) >> MODEL_SHARE_SHIFT;
	return ns < MODEL_MOST_NS ? ns : MODEL_MOST_NS;
}

/* ns / (1 + share) */
static __always_inline __u64 model_shorter(__u64 ns, __u64 share)
{
	return (ns << MODEL_SHARE_SHIFT) / (MODEL_WHOLE + share);
}

/* A step of a quantile: up where the error was beyond, down where not. */
static __always_inline __u32 model_step(__u64 at, bool beyond, __u64 up, __u64 down)
{
	if (beyond)
		return at + up < MODEL_MOST_ERR ? at + up : MODEL_MOST_ERR;
	return at > down ? at - down : 0;
}

/* What is learnt from an error of an I/O whose size the line knows. */
static __always_inline void model_errs(struct model *m, __u64 err, bool longer)
{
	__u64 spread = m->spread, up, down;

	/* Faster at the beginning, and upwards where the spread is far too low. */
	down = m->age < MODEL_FEWEST ? spread >> 2 : spread >> 4;
	up = m->age < MODEL_FEWEST ? spread >> 2 : spread >> 4;
	if (err > spread * MODEL_FAR)
		up = spread >> 3;
	spread = err > spread ? spread + up : spread - down;
	if (spread < MODEL_LEAST_SPREAD)
		spread = MODEL_LEAST_SPREAD;
	if (spread > MODEL_MOST_SPREAD)
		spread = MODEL_MOST_SPREAD;
	m->spread = spread;

	if (m->age < 2 * MODEL_FEWEST) {
		/* Those of normal noise, in spreads. */
		m->early = spread * 39 / 16;
		m->late = spread * 30 / 16;
		return;
	}
	m->early = model_step(m->early, !longer && err > m->early, spread * 19 / 160, spread / 160);
	m->late = model_step(m->late, longer && err > m->late, spread * 9 / 80, spread / 80);
}

/* An I/O of so many sectors of 512 bytes took ns from issue to completion. */
static __always_inline void model_observe(struct model *m, __u32 sectors, __u64 ns)
{
	struct model_line line = {};
	__u64 size = (__u64)sectors << MODEL_FINE;
	__u64 time, seen, from, late, factor, weight;
	bool longer, later, larger;

	if (!sectors || sectors > MODEL_MOST_SECTORS || !ns || ns > MODEL_MOST_NS) {
		m->refused++;
		return;
	}
	m->count++;

	time = seen = ns;
	if (m->age) {
		__u64 err;

		model_line(m, sectors, &line);
		longer = ns > line.ns;
		err = (model_distance(ns, line.ns) << MODEL_SHARE_SHIFT) / (longer ? line.ns : ns);
		if (err > MODEL_MOST_ERR)
			err = MODEL_MOST_ERR;
		if (line.known) {
			__u64 clip = (__u64)m->spread * MODEL_CLIP;
			__u64 far = (__u64)m->spread * MODEL_FAR;

			if (err > clip)
				time = longer ? model_longer(line.ns, clip)
					      : model_shorter(line.ns, clip);
			if (err > far)
				seen = longer ? model_longer(line.ns, far)
					      : model_shorter(line.ns, far);
			if (err <= far)
				m->run = 0;
			else if (longer)
				m->run = m->run > 0 ? m->run + 1 : 1;
			else
				m->run = m->run < 0 ? m->run - 1 : -1;
			model_errs(m, err, longer);
			if (m->run >= MODEL_CHANGE || m->run <= -MODEL_CHANGE) {
				m->changes++;
				m->run = 0;
				m->age = 0;
				time = seen = ns;
			}
		}
	}
	if (!m->age) {
		m->age = 1;
		m->weight = MODEL_ONE;
		m->mean_sectors = m->seen_sectors = size;
		m->mean_ns = m->seen_ns = ns << MODEL_FINE;
		m->var_sectors = m->seen_var_sectors = m->seen_var_ns = 0;
		m->cov = m->seen_cov = 0;
		m->spread = MODEL_FIRST_SPREAD;
		m->early = m->late = 2 * MODEL_FIRST_SPREAD;
		return;
	}
	if (m->age < 1 << 16)
		m->age++;

	/* The line. */
	weight = (line.root * line.root) >> 8;
	if (!weight)
		weight = 1;
	m->weight += weight - (m->weight >> MODEL_MEMORY_SHIFT);
	factor = m->weight ? (weight << 16) / m->weight : MODEL_ONE;
	if (factor > MODEL_ONE)
		factor = MODEL_ONE;
	from = model_distance(size, m->mean_sectors);
	late = model_distance(time << MODEL_FINE, m->mean_ns) >> MODEL_FINE;
	larger = size > m->mean_sectors;
	later = time << MODEL_FINE > m->mean_ns;
	m->mean_sectors = model_mean(m->mean_sectors, size, factor);
	m->mean_ns = model_mean(m->mean_ns, time << MODEL_FINE, factor);
	/* An I/O of about the mean size says nothing of the slope, and makes nothing of it
	 * forgotten. */
	if (((from * from) >> MODEL_FINE) >= m->var_sectors >> 6) {
		m->var_sectors = model_var(m->var_sectors, (from * from) >> MODEL_FINE, factor);
		m->cov = model_cov(m->cov, from * late, larger != later, factor);
	}

	/* The correlation. */
	factor = MODEL_ONE / (m->age < MODEL_SEEN_MEMORY ? m->age : MODEL_SEEN_MEMORY);
	from = model_distance(size, m->seen_sectors);
	late = model_distance(seen << MODEL_FINE, m->seen_ns) >> MODEL_FINE;
	larger = size > m->seen_sectors;
	later = seen << MODEL_FINE > m->seen_ns;
	m->seen_sectors = model_mean(m->seen_sectors, size, factor);
	m->seen_ns = model_mean(m->seen_ns, seen << MODEL_FINE, factor);
	m->seen_cov = model_cov(m->seen_cov, from * late, larger != later, factor);
	/* The square has to fit: beyond 2 s from the mean it counts as 2 s. */
	if (late > 1ULL << 31)
		late = 1ULL << 31;
	m->seen_var_sectors = model_var(m->seen_var_sectors, (from * from) >> MODEL_FINE, factor);
	m->seen_var_ns = model_var(m->seen_var_ns, late * late, factor);
}

/*
 * false: it is not known, since fewer than MODEL_FEWEST were seen since the model was new or began
 * anew, or since none was of nearly that size.
 */
static __always_inline bool model_predict(const struct model *m, __u32 sectors,
					  struct prediction *p)
{
	struct model_line line = {};

	if (m->age < MODEL_FEWEST || !sectors || sectors > MODEL_MOST_SECTORS)
		return false;
	model_line(m, sectors, &line);
	if (!line.known)
		return false;
	p->ns = line.ns;
	p->early_ns = model_shorter(line.ns, m->early);
	p->late_ns = model_longer(line.ns, m->late);
	return true;
}

#endif
