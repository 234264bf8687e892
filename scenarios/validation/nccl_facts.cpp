#include "scenarios/validation/nccl_facts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <tuple>

#include "models/nccl_names.hpp"
#include "scenarios/validation/log_text.hpp"
#include "scenarios/validation/nccl_words.hpp"

namespace foreduce {
namespace {

using nccl_words::small;
using std::string_view;

/// The word behind a mark, up to one of `ends`; empty where the mark is not there.
string_view word_after(string_view line, string_view mark, string_view ends = " ,\t") {
  const auto at = line.find(mark);
  if (at == string_view::npos) return {};
  string_view rest = line.substr(at + mark.size());
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return rest.substr(0, rest.find_first_of(ends));
}

std::string version_of(string_view word) {
  return std::string(word.substr(0, word.find_first_not_of("0123456789.")));
}

void take_count(NcclFacts& facts, string_view line, int nics) {
  if (!facts.nics || nics < *facts.nics) facts.nics_host = nccl_words::host_in(line);
  facts.nics = std::min(facts.nics.value_or(nics), nics);
  facts.most_nics = std::max(facts.most_nics.value_or(nics), nics);
}

void take_nics(NcclFacts& facts, string_view line) {
  for (const char* mark : {"(found ", "Found "})  // "… efa (found 4 nics)", "NET/OFI Found 1 nics"
    if (const auto n = small(word_after(line, mark))) take_count(facts, line, *n);
}

/// "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:…" (transport/net_ib.cc).
void take_cards(NcclFacts& facts, string_view line) {
  constexpr string_view kMark = "NET/IB : Using ";
  const auto mark = line.find(kMark);
  if (mark == string_view::npos) return;
  int cards = 0;
  // Ports that are merged ("[0]={[0] mlx5_2:1/RoCE, [1] mlx5_3:1/RoCE}") are neither cards nor
  // all of a machine's.
  for (string_view rest = line.substr(mark + kMark.size());
       rest.starts_with('[') && line.find("]={") == string_view::npos;) {
    const auto close = rest.find(']');
    if (close == string_view::npos || !small(rest.substr(1, close - 1))) break;
    ++cards;
    const auto space = rest.find(' ');
    rest = space == string_view::npos ? string_view() : rest.substr(space + 1);
  }
  if (cards > 0) take_count(facts, line, cards);
}

void take_channels(NcclFacts& facts, string_view line) {
  if (const auto mark = line.find(" coll channels"); mark != string_view::npos) {
    const string_view before = line.substr(0, mark);
    if (const auto n = small(before.substr(before.find_last_of(' ') + 1)))
      facts.channels = std::max(facts.channels.value_or(0), *n);
  }
  // "channel{Lo..Hi}={0..7}" of a collective (enqueue.cc).
  if (const auto range = word_after(line, "channel{Lo..Hi}="); range.ends_with('}'))
    if (const auto to = range.find(".."); to != string_view::npos)
      if (const auto last = small(range.substr(to + 2, range.size() - to - 3)))
        facts.least_channels = std::max(facts.least_channels, *last + 1);
  // "Channel 00/16 :    0   1  …" counts them. "Channel 07/0 : 0[0] -> 8[0]" is one of them, and
  // with another number behind the slash one of sends and receives (transport.cc, connIndex).
  const auto pair = word_after(line, " Channel ");
  const auto slash = pair.find('/');
  if (slash == string_view::npos) return;
  const auto number = small(pair.substr(0, slash)), behind = small(pair.substr(slash + 1));
  if (!number || !behind) return;
  if (line.find("->") == string_view::npos) {
    if (*behind > 0) facts.channels = std::max(facts.channels.value_or(0), *behind);
  } else if (*behind == 0) {
    facts.least_channels = std::max(facts.least_channels, *number + 1);
  }
}

/// "Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA" (transport/net.cc).
void take_connection(NcclFacts& facts, string_view line) {
  constexpr string_view kVia = " via NET/";  // "… via NET/AWS Libfabric/0/GDRDMA"
  const auto slash = line.find('/', line.find(kVia) + kVia.size());
  const string_view card = slash == string_view::npos ? string_view() : line.substr(slash + 1);
  if (const auto number = small(card.substr(0, card.find_first_not_of("0123456789"))))
    facts.cards_in_use[nccl_words::host_in(line)].insert(*number);
  // GPUs before Ampere, without NVLink, are read by the host where they send, and written by the
  // card where they receive (NCCL_NET_GDR_READ): what receives tells.
  const bool receives = line.find("[receive]") != string_view::npos;
  if (receives && !facts.receives) {
    facts.receives = true;
    facts.gpudirect.reset();
    facts.gpudirect_of_host.clear();
  }
  if (facts.receives && !receives) return;
  const bool direct = line.find("/GDRDMA") != string_view::npos;
  facts.gpudirect = facts.gpudirect.value_or(true) && direct;
  if (std::string host = nccl_words::host_in(line); !host.empty()) {
    bool& there = facts.gpudirect_of_host.try_emplace(std::move(host), true).first->second;
    there = there && direct;
  }
}

/// A setting's value, if it is one that may be repeated: no path, no secret. NCCL ends the line of
/// a number with a full stop (param.cc).
std::string plain(string_view word, std::size_t most = 40) {
  if (word.ends_with('.')) word.remove_suffix(1);
  constexpr string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789;:^=,_-";
  return word.size() <= most && word.find_first_not_of(kLetters) == string_view::npos
             ? std::string(word)
             : std::string();
}

/// How long a value may be that is repeated: of NCCL_IB_HCA a list of a node's cards, of NCCL_ALGO
/// one of algorithms.
std::size_t longest(string_view setting) {
  return setting == "NCCL_IB_HCA" ? 400 : setting == "NCCL_ALGO" ? 120 : 40;
}

/// A setting that may be repeated, of "NCCL_ALGO=Ring"; nothing for another word.
std::optional<std::pair<std::string, std::string>> setting_of(string_view word) {
  const auto equals = word.find('=');
  if (!word.starts_with("NCCL_") || equals == string_view::npos) return std::nullopt;
  const auto known = std::find(std::begin(nccl_words::kSettings), std::end(nccl_words::kSettings),
                               word.substr(0, equals));
  std::string value = plain(word.substr(equals + 1), longest(word.substr(0, equals)));
  if (known == std::end(nccl_words::kSettings) || value.empty()) return std::nullopt;
  return std::pair(std::string(*known), std::move(value));
}

/// "+ NET[25.0] - NET/0 (…)" of the system that NCCL found (graph/topo.cc): a card's GB/s.
void take_card_rate(NcclFacts& facts, string_view line) {
  const auto card = small(word_after(line, " - NET/"));
  const auto gb = nccl_words::number(word_after(line, "+ NET[", "]"));
  if (!card || !gb || *gb <= 0 || *gb >= 1e4) return;
  const BytesPerSecond rate{1e9 * *gb};
  const auto [at, first] = facts.card_rates.try_emplace(*card, rate);
  at->second = std::min(at->second, rate);
}

/// "Using network GPUDirectTCPX_v7": of plugins whose names say that they carry neither EFA's nor
/// InfiniBand's bytes.
void take_plugin(NcclFacts& facts, string_view line) {
  const string_view name = word_after(line, "Using network ");
  for (const string_view known : {"TCPX", "FasTrak", "FastSocket", "TCPXO"})
    if (name.find(known) != string_view::npos) facts.other_plugin = plain(name);
  if (name == "gIB" || name.starts_with("gIB_")) facts.network = NcclNetwork::infiniband;
}

/// The first few that differ but for their numbers.
void take_warning(NcclFacts& facts, string_view line) {
  constexpr std::size_t kMost = 3;
  std::string warning = warning_in(line);
  if (warning.empty() || facts.warnings.size() == kMost) return;
  const auto letters = [](std::string text) {
    std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
    return text;
  };
  const auto alike = [&](const std::string& w) { return letters(w) == letters(warning); };
  if (std::none_of(facts.warnings.begin(), facts.warnings.end(), alike))
    facts.warnings.push_back(std::move(warning));
}

/// An instance type, or nothing.
std::string plain_type(string_view word) {
  const bool is =
      word.find('.') != string_view::npos &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == string_view::npos;
  return is && word.size() <= 40 ? std::string(word) : std::string();
}

/// "AllReduce: 1048576 Bytes -> Algo RING proto LL channel…", or "1048576 Bytes -> Algo 1 proto 0
/// time …" of releases before 2.22 (enqueue.cc). Of collectives that it names, all-reduces alone.
void take_choice(NcclFacts& facts, string_view line) {
  constexpr string_view kMark = " Bytes -> Algo ";
  const auto mark = line.find(kMark);
  if (mark == string_view::npos) return;
  const string_view before = line.substr(0, mark);
  const auto bytes = nccl_words::whole(before.substr(before.find_last_of(' ') + 1));
  const string_view named = before.substr(0, std::min(before.size(), before.find_last_of(' ')));
  if (!bytes || (named.ends_with(':') && !named.ends_with("AllReduce:"))) return;
  const string_view algorithm = word_after(line, kMark), protocol = word_after(line, " proto ");
  for (const NcclAlgorithmNames& names : kNcclAlgorithms)
    for (const EnumWord<NcclProtocol>& p : EnumWords<NcclProtocol>::all)
      if ((algorithm == names.logged || algorithm == names.number) &&
          (nccl_protocol_forced(protocol) == p.value ||
           protocol == std::to_string(static_cast<int>(p.value))))
        facts.chosen[*bytes] = {names.algorithm, p.value};
}

}  // namespace

const char* name_of(NcclNetwork network) {
  switch (network) {
    case NcclNetwork::efa: return "EFA";
    case NcclNetwork::sockets: return "TCP sockets";
    case NcclNetwork::infiniband: return "InfiniBand";
    case NcclNetwork::unknown: break;
  }
  return "unknown";
}

std::optional<NcclFacts::Cards> NcclFacts::cards_listed() const {
  std::string list = setting("NCCL_IB_HCA");
  const bool whole_names = list.starts_with('=');
  if (whole_names) list.erase(0, 1);
  if (list.empty() || list.starts_with('^')) return std::nullopt;  // all but these
  Cards cards;
  std::set<std::string> ports;  // "mlx5_0:1"; without a port all of the card's
  for (std::size_t from = 0; from < list.size();) {
    const std::size_t end = std::min(list.find(',', from), list.size());
    const std::string port = list.substr(from, end - from), card = port.substr(0, port.find(':'));
    // "mlx5" is every card whose name begins so.
    const std::size_t number = card.find_last_not_of("0123456789") + 1;
    if (card.find('_') == std::string::npos || number == card.size()) return std::nullopt;
    const bool begins_others = card.size() - number == 1 && card.back() != '0';
    if (!whole_names && begins_others) cards.exact = false;
    ports.insert(port);
    from = end + 1;
  }
  cards.least = static_cast<int>(ports.size());
  return cards;
}

bool NcclFacts::names_rdma_cards() const {
  const std::string list = setting("NCCL_IB_HCA");
  const std::string first = list.substr(std::min(list.find_first_not_of("=^"), list.size()));
  return !first.empty() && !first.starts_with("efa") && !first.starts_with("rdmap");
}

std::string NcclFacts::hosts_without_gpudirect() const {
  std::vector<std::string> without;
  for (const auto& [host, has] : gpudirect_of_host)
    if (!has) without.push_back(host);
  return without.size() == gpudirect_of_host.size() ? ""
                                                    : fmt::format("{}", fmt::join(without, ", "));
}

static void name_efa(NcclFacts& facts) {
  facts.efa_named = true;
  if (facts.other_plugin == kSlingshot) facts.other_plugin.clear();  // settings say less
}

/// Of a pair that NCCL need not use: "… Disabled for GPU 0 / HCA 3 (distance 7 > 4)".
static void take_distance(NcclFacts& facts, string_view line) {
  if (!facts.too_far.empty() || line.find("RDMA Disabled for GPU") == string_view::npos) return;
  static const std::regex kTooFar(
      R"(RDMA Disabled for GPU (\w+) / HCA (\w+) (\(distance [^)]*\)))");
  std::cmatch pair;
  if (std::regex_search(line.data(), line.data() + line.size(), pair, kTooFar))
    facts.too_far =
        fmt::format("GPU {} and HCA {} {}", pair[1].str(), pair[2].str(), pair[3].str());
}

void take_info(NcclFacts& facts, string_view line) {
  const auto has = [&](string_view mark) { return line.find(mark) != string_view::npos; };
  if (const auto v = version_of(word_after(line, "NCCL version ")); !v.empty())
    facts.nccl_version = v;
  for (const char* mark : {"Initializing aws-ofi-nccl ", "Using aws-ofi-nccl "})
    if (const auto v = version_of(word_after(line, mark)); !v.empty()) facts.plugin_version = v;
  if (has("elected Provider is efa") || has("elected provider is efa")) name_efa(facts);
  if (facts.efa_named || has("Using network AWS Libfabric") || has("Using network Libfabric") ||
      has("via NET/AWS Libfabric") || has("via NET/Libfabric"))
    facts.network = NcclNetwork::efa;
  // The plugin over libfabric's own TCP: it finds the cards of that, and none of EFA's.
  if (const auto provider = word_after(line, "elected Provider is ").empty()
                                ? word_after(line, "elected provider is ")
                                : word_after(line, "elected Provider is ");
      !provider.empty()) {
    facts.plugin_over_tcp =
        facts.plugin_over_tcp || provider.starts_with("tcp") || provider.starts_with("sockets");
    if (!facts.plugin_over_tcp && !provider.starts_with("efa"))
      facts.other_plugin =
          plain("libfabric:" + std::string(provider.substr(0, provider.find(';'))));
  }
  if (has("Using network Socket") || has("via NET/Socket")) facts.network = NcclNetwork::sockets;
  if (has("Using network IB") || has("via NET/IB")) facts.network = NcclNetwork::infiniband;
  // What a network's own code says before NCCL says that it uses it.
  if (facts.network == NcclNetwork::unknown &&
      ((has("NET/IB : ") && !has("No device found")) || has("GPU Direct RDMA Disabled for HCA ")))
    facts.network = NcclNetwork::infiniband;
  if (facts.network == NcclNetwork::unknown && has("NET/Socket : Using ["))
    facts.network = NcclNetwork::sockets;
  take_plugin(facts, line);
  take_card_rate(facts, line);
  take_warning(facts, line);
  // aws-ofi-nccl, platform-aws.c: "Running on p5.48xlarge platform, Setting NCCL_TOPO_FILE …";
  // nccl_ofi_tuner.cpp: "NCCL_OFI_TUNER is not available for platform : g7e.8xlarge, …" and
  // "Region base Tuner is chosen for platform: p5.48xlarge".
  if (has("Running on ") && has(" platform"))
    facts.platform = plain_type(word_after(line, "Running on "));
  for (const char* mark : {"for platform : ", "for platform: "})
    if (const auto type = plain_type(word_after(line, mark)); !type.empty()) facts.platform = type;
  if (has(" nics") && !facts.plugin_over_tcp) take_nics(facts, line);
  take_cards(facts, line);
  if (has("NET/IB : No device found")) facts.no_infiniband = true;
  if (facts.plugin_over_tcp) {
    facts.network = NcclNetwork::sockets;
    facts.nics = facts.most_nics = std::nullopt;
  }
  if (has(" via NET/")) take_connection(facts, line);
  take_distance(facts, line);
  if (has("GPU Direct RDMA Disabled for HCA")) {
    facts.gpudirect = false;
    facts.receives = true;  // as much as a connection tells that receives
  }
  if (has(" via SHM")) facts.over_shm = true;
  if (has("NVLS multicast support is "))
    facts.nvls = facts.nvls.value_or(true) && !has("NVLS multicast support is not available");
  take_channels(facts, line);
  take_choice(facts, line);
  if (has("tuner") || has("TUNER")) {
    if (has("Using tuner plugin") || has("Successfully loaded external tuner") ||
        has("ofi tuner plugin"))
      facts.tuner = true;
    if (!facts.tuner && (has("No plugin found") || has("Could not find"))) facts.tuner = false;
  }
  // What aws-ofi-nccl sets for itself (platform-aws.c, nccl_ofi_interface_nvidia.cpp), NCCL reports
  // as the environment's: "Adding NCCL_PROTO=simple to environment", "Setting NCCL_PROTO to …".
  for (const char* mark : {"NET/OFI Adding ", "NET/OFI Setting "})
    if (const auto name = word_after(line, mark, "= "); !name.empty()) {
      facts.set_by_plugin.insert(std::string(name));
      facts.settings.erase(std::string(name));
    }
  for (const char* name : nccl_words::kSettings)  // a list with commas is one value
    if (const auto v = plain(word_after(line, std::string(name) + " set by environment to ", " \t"),
                             longest(name));
        !v.empty() && !facts.set_by_plugin.contains(name))
      facts.settings[name] = v;
}

namespace {

/// The words before a comment, which begins with a "#" of its own: "host:/# export …" does not.
nccl_words::Words without_comment(nccl_words::Words words) {
  words.erase(std::find_if(words.begin(), words.end(),
                           [](string_view word) { return word.starts_with('#'); }),
              words.end());
  return words;
}

/// Whether "export" is a command there, and no word of a sentence: "Try export NCCL_…".
bool is_command(const nccl_words::Words& words, std::size_t at) {
  if (at == 0) return true;
  const string_view before = words[at - 1];
  return before == "then" || before == "do" || before == "else" ||
         std::any_of(before.begin(), before.end(), [](unsigned char c) {
           return !std::isalpha(c) && c != ',' && c != '.' && c != ':';
         });
}

}  // namespace

std::map<std::string, std::string> settings_of_command(string_view line) {
  std::map<std::string, std::string> settings;
  const nccl_words::Words words = without_comment(nccl_words::split(line));
  const bool launches = !nccl_words::test_in(words).empty() || nccl_words::launches(words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const string_view before = i > 0 ? words[i - 1] : string_view();
    // In the middle of a line only behind a word that sets it, or beside what it is set for.
    const bool set = i == 0 || launches || before == "-x" ||
                     (before == "export" && is_command(words, i - 1)) || before == "env" ||
                     before == "--env" || before == "-env";
    if (const auto setting = setting_of(words[i]); setting && set) settings.insert(*setting);
  }
  return settings;
}

void CommandSettings::take(string_view line) {
  const bool exports = line.find("export ") != string_view::npos;
  const nccl_words::Words words = nccl_words::split(line);
  const bool tests = line.find('#') == string_view::npos && !nccl_words::test_in(words).empty();
  if (test_seen_ && (tests || nccl_words::launches(words))) {
    commanded_.clear();  // that was the command of a run without a row
    test_seen_ = false;
  }
  test_seen_ = test_seen_ || tests;
  if (line.find("NCCL_") == string_view::npos) return;
  for (const auto& [name, value] : settings_of_command(line))
    (exports ? exported_ : commanded_)[name] = value;
  const nccl_words::Words said = without_comment(words);
  const auto unset = std::find(said.begin(), said.end(), "unset");
  if (unset == said.end() || !is_command(said, static_cast<std::size_t>(unset - said.begin())))
    return;
  for (auto name = unset + 1; name != said.end(); ++name)
    exported_.erase(std::string(name->substr(0, name->find(';'))));
}

void CommandSettings::give_to(NcclFacts& facts) {
  facts.settings.merge(commanded_);
  facts.settings.insert(exported_.begin(), exported_.end());
  commanded_.clear();
  test_seen_ = false;
}

}  // namespace foreduce
