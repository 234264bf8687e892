// What a scenario may say of money: prices of instances, and what a plan may cost.
#pragma once

#include <fmt/format.h>

#include "scenarios/sweep/workload_keys.hpp"

namespace foreduce {

/// Reads what `key` says, which is money in any currency, into USD.
template <class Q>
void read_money(FieldReader& r, const char* key, const std::string& written, double exchange_rate,
                Q& in_usd) {
  if (!r.has(key)) return;
  std::string currency, why;
  if (!parse_money(written, UnitsOf<Q>::table, UnitsOf<Q>::kind, in_usd.value, currency, why)) {
    r.problem(key, why);
    return;
  }
  if (currency != "USD" && !r.has("exchange_rate"))
    r.problem(key, fmt::format("a {0} in {1} needs exchange_rate: USD for one {1}", key, currency));
  if (currency == "USD" && r.has("exchange_rate"))
    r.problem("exchange_rate", fmt::format("the {} is in USD already", key));
  if (r.has("exchange_rate")) in_usd = in_usd * exchange_rate;
  if (!(in_usd.value > 0 && in_usd.value <= kMostOf<Q>))
    r.problem(key, fmt::format("a {} is above 0 and at most {:.0f} {}", key, kMostOf<Q>,
                               UnitsOf<Q>::table->spelling));
}

template <class Fields>
void describe(Fields& f, UserPrice& p) {
  f.required("instance", p.instance, "A machine of foreduce list instances, or ./file.yaml.",
             instance_choice());
  f.required("price", p.written,
             "What one instance costs you, on the spot market, reserved or by your own contract: a "
             "number such as 12.50 USD/h, or 11 EUR/h with an exchange_rate.");
  f.optional("exchange_rate", p.exchange_rate,
             "USD for one unit of the price's currency, where that is not USD. Answers are in USD.",
             Limits::between(1e-6, 1e6));
  f.verify([&](FieldReader& r) { read_money(r, "price", p.written, p.exchange_rate, p.price); });
}

template <class Fields>
void describe(Fields& f, GoalSpec& g) {
  f.optional("samples", g.samples,
             "Samples to be trained on: those of an epoch times the epochs, e.g. 115.3 million.");
  f.optional("tokens", g.tokens,
             "The same in tokens, where the workload's sample is a number of tokens.");
  f.optional("deadline", g.deadline, "Time in which training must end.");
  f.optional("budget", g.budget_written,
             "What training may cost, e.g. 2500 USD, 4M USD, or 900 EUR with an exchange_rate.");
  f.optional(
      "exchange_rate", g.exchange_rate,
      "USD for one unit of the budget's currency, where that is not USD. Answers are in USD.",
      Limits::between(1e-6, 1e6));
  f.verify([&g](FieldReader& r) {
    if (r.has("budget"))
      read_money(r, "budget", g.budget_written, g.exchange_rate, g.budget.emplace());
    else if (r.has("exchange_rate")) r.problem("exchange_rate", "there is no budget");
    if (g.samples && r.text_of("samples").ends_with("tokens"))
      r.problem("samples", "counts samples, not tokens", "tokens: " + r.text_of("samples"));
    if (g.tokens && r.text_of("tokens").ends_with("samples"))
      r.problem("tokens", "counts tokens, not samples", "samples: " + r.text_of("tokens"));
    if (r.has("samples") == r.has("tokens"))
      r.problem("samples",
                r.has("samples")
                    ? "give samples or tokens, not both"
                    : "this key (or tokens) is missing here: how much is to be trained on?");
  });
}

}  // namespace foreduce
