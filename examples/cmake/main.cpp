// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blends two images and compares with the formula in plain C++.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "blend.h"

int main() {
    const std::int64_t h = 480, w = 641, c = 3;
    std::vector<float> top(h * w * c), bottom(h * w * c), alpha(h * w), out(h * w * c);
    for (std::size_t i = 0; i < top.size(); i++) {
        top[i] = 0.5F + 0.5F * std::sin(0.01F * static_cast<float>(i));
        bottom[i] = 0.5F + 0.5F * std::cos(0.003F * static_cast<float>(i));
    }
    for (std::size_t i = 0; i < alpha.size(); i++) alpha[i] = static_cast<float>(i % 256) / 255.0F;

    if (blend_f32(top.data(), bottom.data(), alpha.data(), out.data(), h, w, c) != TG_OK) {
        std::fprintf(stderr, "%s\n", tg_last_error());
        return 1;
    }
    double worst = 0;
    for (std::size_t i = 0; i < out.size(); i++) {
        double a = alpha[i / c], expected = a * top[i] + (1 - a) * bottom[i];
        worst = std::fmax(worst, std::fabs(out[i] - expected));
    }
    std::printf("%lld x %lld pixels blended, largest error %.1e\n", static_cast<long long>(w),
                static_cast<long long>(h), worst);
    return worst < 1e-6 ? 0 : 1;
}
