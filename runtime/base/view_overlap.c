// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overlaps of strided views as bounded linear equations in integers.
//
// Element i of x and element j of y share a byte if the distance of their addresses is small:
//
//     sum of a_k t_k = b,   0 <= t_k <= n_k,   a_k > 0
//
// Each t_k is an index, counted from the end of its axis at which addresses are lowest (for x:
// highest), and b runs over the distances at which elements overlap. The search goes from the
// greatest a_k down. The range of the remaining terms bounds t_k from both sides, and their
// greatest common divisor leaves a few residues of it. Strides of slices, columns and halves leave
// one or two values. The general problem is NP-complete (subset sums), so the number of steps is
// limited.
#include "runtime/base/view_overlap.h"

#include <stdbool.h>
#include <string.h>

enum { AXES = 8, TERMS = 2 * AXES, STEPS = 1 << 16 };
#define FAR ((int64_t)1 << 61) // beyond the span of any view

__extension__ typedef __int128 WideInt; // for products

typedef struct IndexTerm {
    int64_t a, most;
} IndexTerm;

typedef struct Equation {
    int n, steps; // steps left
    IndexTerm terms[TERMS];
    int64_t gcd[TERMS + 1], reach[TERMS + 1]; // of the terms k .. n
} Equation;

static int64_t gcd_of(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/// Solves a x = 1 modulo m for coprime a and m.
static int64_t modular_inverse(int64_t a, int64_t m) {
    int64_t r = m, s = a % m, x = 0, y = 1;
    while (s) {
        int64_t q = r / s, t = r - q * s;
        r = s;
        s = t;
        t = x - q * y;
        x = y;
        y = t;
    }
    return x < 0 ? x + m : x;
}

/// Merges terms with the same coefficient.
static void add_index_term(Equation *e, int64_t a, int64_t most) {
    int k = 0;
    if (most <= 0) return;
    while (k < e->n && e->terms[k].a > a) k++;
    if (k < e->n && e->terms[k].a == a) {
        e->terms[k].most += most;
        return;
    }
    memmove(&e->terms[k + 1], &e->terms[k], sizeof *e->terms * (size_t)(e->n++ - k));
    e->terms[k] = (IndexTerm){a, most};
}

static void complete_equation(Equation *e) {
    e->gcd[e->n] = e->reach[e->n] = 0;
    for (int k = e->n - 1; k >= 0; k--) {
        e->gcd[k] = gcd_of(e->terms[k].a, e->gcd[k + 1]);
        e->reach[k] = e->reach[k + 1] + e->terms[k].a * e->terms[k].most;
    }
}

static int64_t least_int64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/// Returns the smallest t >= low with b - t * a (a: of term k) divisible by the common divisor of
/// the smaller terms. Sets *step to the distance to the next such t.
static int64_t first_residue(const Equation *e, int k, int64_t b, int64_t low, int64_t *step) {
    int64_t a = e->terms[k].a, g = e->gcd[k], m = e->gcd[k + 1] / g;
    *step = m > 1 ? m : 1;
    if (m <= 1) return low;
    int64_t t = (int64_t)((WideInt)(b / g % m) * modular_inverse(a / g, m) % m);
    return low + ((t - low) % m + m) % m;
}

static rt_meeting solve_equation(Equation *e, int k, int64_t b) {
    if (b < 0 || b > e->reach[k]) return RT_APART;
    if (b == 0) return RT_MEET;
    if (b % e->gcd[k]) return RT_APART;
    int64_t a = e->terms[k].a, rest = e->reach[k + 1], step;
    if (k == e->n - 1) return RT_MEET; // a divides b, and b is in reach
    int64_t low = b > rest ? (b - rest + a - 1) / a : 0,
            high = least_int64(e->terms[k].most, b / a);
    for (int64_t t = first_residue(e, k, b, low, &step); t <= high; t += step) {
        if (e->steps-- <= 0) return RT_UNDECIDED;
        rt_meeting found = solve_equation(e, k + 1, b - a * t);
        if (found != RT_APART) return found;
    }
    return RT_APART;
}

/* ---- two views ------------------------------------------------------------------------------- */

/// A view in bytes: the start of its lowest element, and the distances of the others.
typedef struct Places {
    uintptr_t lowest;
    int rank, bytes;
    IndexTerm axes[AXES];
} Places;

/// The strides of an empty view are ignored.
static bool has_elements(const rt_view *v) {
    for (int d = 0; d < v->rank; d++)
        if (v->shape[d] == 0) return false;
    return true;
}

/// Uses half bytes from data if elements are 4 bits, else bytes.
static void places_of(const rt_view *v, int64_t unit, Places *p, int64_t *offset) {
    *p = (Places){.lowest = (uintptr_t)v->data, .bytes = v->bits / 8};
    *offset = 0;
    for (int d = 0; d < v->rank; d++) {
        int64_t more = v->shape[d] - 1, step = more ? v->strides[d] * unit : 0;
        if (step == 0) continue;
        if (step < 0) *offset += step * more;
        p->axes[p->rank++] = (IndexTerm){step < 0 ? -step : step, more};
    }
}

static rt_meeting compare_places(const Places *x, const Places *y, int *steps) {
    Equation e = {.steps = *steps - 1};
    int64_t b = 0, apart = (int64_t)(y->lowest - x->lowest);
    if (e.steps < 0) return RT_UNDECIDED;
    if (apart > FAR || apart < -FAR) return RT_APART;
    for (int d = 0; d < x->rank; d++) add_index_term(&e, x->axes[d].a, x->axes[d].most);
    for (int d = 0; d < y->rank; d++) {
        add_index_term(&e, y->axes[d].a, y->axes[d].most);
        b += y->axes[d].a * y->axes[d].most;
    }
    complete_equation(&e);
    // Index j of y counts as most - j: start of x - start of y = sum - b.
    b += apart;
    rt_meeting found = RT_APART;
    int64_t g = e.gcd[0] ? e.gcd[0] : 1, at = b - (x->bytes - 1), end = b + y->bytes;
    for (at += (g - at % g) % g; at < end && found == RT_APART; at += g)
        found = solve_equation(&e, 0, at);
    *steps = e.steps;
    return found;
}

/// 4-bit elements in half bytes. Their bytes are positions once all steps are even. An axis with an
/// odd step splits into even and odd positions.
typedef struct Halves {
    Places places;
    int64_t offset;
} Halves;

typedef rt_meeting Visit(const Places *p, void *user);

static rt_meeting each_even(Halves h, int from, Visit *visit, void *user) {
    IndexTerm *axes = h.places.axes;
    while (from < h.places.rank && axes[from].a % 2 == 0) from++;
    if (from == h.places.rank) {
        for (int d = 0; d < h.places.rank; d++) axes[d].a /= 2;
        h.places.lowest += (uintptr_t)(h.offset >> 1);
        h.places.bytes = 1;
        return visit(&h.places, user);
    }
    Halves odd = h;
    int64_t most = axes[from].most;
    odd.offset += axes[from].a;
    axes[from] = (IndexTerm){2 * axes[from].a, most / 2};
    odd.places.axes[from] = (IndexTerm){axes[from].a, (most - 1) / 2};
    rt_meeting found = each_even(h, from + 1, visit, user);
    return found == RT_APART ? each_even(odd, from + 1, visit, user) : found;
}

static rt_meeting each_place(const rt_view *v, Visit *visit, void *user) {
    Halves h;
    bool halves = v->bits < 8;
    if (!has_elements(v)) return RT_APART;
    places_of(v, halves ? 1 : v->bits / 8, &h.places, &h.offset);
    if (halves) return each_even(h, 0, visit, user);
    h.places.lowest += (uintptr_t)h.offset;
    return visit(&h.places, user);
}

typedef struct ViewPair {
    const rt_view *y;
    const Places *x;
    int steps;
} ViewPair;

static rt_meeting compare_with(const Places *y, void *user) {
    ViewPair *p = user;
    return compare_places(p->x, y, &p->steps);
}

static rt_meeting compare_view_places(const Places *x, void *user) {
    ViewPair *p = user;
    p->x = x;
    return each_place(p->y, compare_with, p);
}

rt_meeting rt_views_meet(const rt_view *x, const rt_view *y) {
    ViewPair pair = {.y = y, .steps = STEPS};
    return each_place(x, compare_view_places, &pair);
}

/* ---- one view -------------------------------------------------------------------------------- */

/// Sorts the axes with more than one element by descending stride. Returns their number.
static int sort_axes(const rt_view *x, IndexTerm *axes) {
    int n = 0;
    for (int d = 0; d < x->rank; d++) {
        if (x->shape[d] == 1) continue;
        IndexTerm new = {x->strides[d] < 0 ? -x->strides[d] : x->strides[d], x->shape[d] - 1};
        int k = n++;
        for (; k > 0 && axes[k - 1].a < new.a; k--) axes[k] = axes[k - 1];
        axes[k] = new;
    }
    return n;
}

/// Whether each stride exceeds the span of the axes with smaller strides.
static bool is_nested(const IndexTerm *axes, int n) {
    int64_t reach = 0;
    for (int k = n - 1; k >= 0; k--) {
        if (axes[k].a <= reach) return false;
        reach += axes[k].a * axes[k].most;
    }
    return true;
}

/// Tests pairs of positions that are equal before axis `first`, differ by t + 1 > 0 there, and by
/// any t - most along later axes.
static rt_meeting differ_from(const IndexTerm *axes, int n, int first, int *steps) {
    Equation e = {.steps = *steps};
    int64_t b = -axes[first].a;
    add_index_term(&e, axes[first].a, axes[first].most - 1);
    for (int k = first + 1; k < n; k++) {
        add_index_term(&e, axes[k].a, 2 * axes[k].most);
        b += axes[k].a * axes[k].most;
    }
    complete_equation(&e);
    rt_meeting found = solve_equation(&e, 0, b);
    *steps = e.steps;
    return found;
}

rt_meeting rt_view_meets_itself(const rt_view *x) {
    IndexTerm axes[AXES];
    if (!has_elements(x)) return RT_APART;
    int n = sort_axes(x, axes), steps = STEPS;
    if (is_nested(axes, n)) return RT_APART;
    if (axes[n - 1].a == 0) return RT_MEET;
    rt_meeting found = RT_APART;
    for (int k = 0; k < n && found == RT_APART; k++) found = differ_from(axes, n, k, &steps);
    return found;
}
