// A profile as YAML: one description of its fields, visited by the reader, the writer and the
// calibration.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "input/field_text.hpp"
#include "models/profile.hpp"
#include "models/nccl_constants.hpp"

namespace foreduce {

template <class Fields, class Q>
void describe(Fields& f, Estimated<Q>& e) {
  f.required("value", e.value, "the value to use", Limits::zero_or_more());
  f.required("origin", e.origin, "how we know it", one_of<NumberOrigin>("origin"));
  std::vector<Q> bounds;
  if (e.interval) bounds.assign(e.interval->begin(), e.interval->end());
  f.optional("interval", bounds, "[low, high], 90 %; left out if unknown", Limits::zero_or_more());
  f.verify([&](auto& fields) {
    if (bounds.empty()) return;
    if (bounds.size() != 2 || bounds[0] > e.value || e.value > bounds[1]) {
      fields.problem("interval", "an interval is [low, high] around the value");
      return;
    }
    e.interval = std::array<Q, 2>{bounds[0], bounds[1]};
  });
  f.required("source", e.source, "publication, file or command");
}
template <class Fields>
void describe(Fields& f, LinkClass& c) {
  f.optional("latency", c.latency, "of a message, all its hops");
  f.optional("efficiency", c.efficiency, "of the bandwidth that payload can reach");
  f.optional("overhead", c.overhead, "for which a message occupies its sender and its receiver");
  f.optional("peer_overhead", c.peer_overhead, "the same where a rank sends to many at once");
  f.optional("proxy_rate", c.proxy_rate, "bytes a second that a GPU's host thread moves");
  f.verify([&](auto& fields) {
    if (c.efficiency && (c.efficiency->value <= 0 || c.efficiency->value > 1))
      fields.problem("efficiency", "an efficiency is more than 0 and at most 1");
    if (c.proxy_rate && c.proxy_rate->value.value <= 0)
      fields.problem("proxy_rate", "a rate is more than zero");
  });
}
template <class Fields>
void describe(Fields& f, Protocol& p) {
  f.required("name", p.name, "LL, LL128, Simple, or another library's");
  f.optional("launch", p.launch, "once a collective, besides the profile's own");
  f.optional("efficiency", p.efficiency, "payload over bytes on the wire");
  f.optional("hop", p.hop, "what a message inside a node pays more");
  f.optional("ring_hop", p.ring_hop, "the same in a ring");
  f.optional("net_hop", p.net_hop, "what a message between nodes pays more");
  f.optional("net_hop_whole_from", p.net_hop_whole_from,
             "bytes on the wire from which net_hop is whole; smaller messages pay as their root");
  f.optional("rdma_ring_hop", p.rdma_ring_hop,
             "in place of net_hop in a ring over InfiniBand or RoCE");
  f.optional("rdma_ring_hop_whole_from", p.rdma_ring_hop_whole_from,
             "bytes on the wire from which rdma_ring_hop is whole; smaller messages pay as their "
             "root");
  f.optional("net_hop_from", p.net_hop_from,
             "bytes on the wire; only messages as long pay net_hop");
  f.optional("overhead", p.overhead, "for which a message between nodes occupies either end more");
  f.optional("proxy_rate", p.proxy_rate,
             "bytes on the wire a second that a host thread handles for one channel");
  f.optional("gap", p.gap, "for which a connection between nodes rests after a message");
  f.optional("gap_one_node", p.gap_one_node,
             "for which a connection rests after a message on one node");
  f.optional("gap_whole_from", p.gap_whole_from,
             "bytes on the wire from which the gap is whole; smaller messages rest as their root");
  f.optional("gap_from", p.gap_from,
             "bytes on the wire from which it rests; it does not after messages of half as many");
  f.optional("chunk", p.chunk, "payload of one message at most");
  f.optional("slots", p.slots, "messages on the way on a connection at most");
  f.optional("channel_rate", p.channel_rate, "payload that one channel can move");
  f.optional("net_channel_rate", p.net_channel_rate,
             "payload that one channel can move into and out of buffers in host memory, where they "
             "are between nodes");
  f.optional("one_node", p.one_node, "only used inside one node");
  f.verify([&](auto& fields) {
    if (p.efficiency && (p.efficiency->value <= 0 || p.efficiency->value > 1))
      fields.problem("efficiency", "an efficiency is more than 0 and at most 1");
    if (p.gap_from && !p.gap)
      fields.problem("gap_from", "says when a gap is paid, and there is none");
    if (p.gap_whole_from && (!p.gap || p.gap_whole_from->value.value < 1))
      fields.problem("gap_whole_from", "says when a gap is whole, and there is none");
    if (p.rdma_ring_hop.has_value() != p.rdma_ring_hop_whole_from.has_value() ||
        (p.rdma_ring_hop && p.rdma_ring_hop_whole_from->value.value < 1))
      fields.problem("rdma_ring_hop", "stands with rdma_ring_hop_whole_from, of a byte at least");
    if (p.net_hop_from && !p.net_hop)
      fields.problem("net_hop_from", "says when a net_hop is paid, and there is none");
    if (p.net_hop_whole_from && (!p.net_hop || p.net_hop_whole_from->value.value < 1))
      fields.problem("net_hop_whole_from", "says when a net_hop is whole, and there is none");
    if (p.chunk && p.chunk->value.value < 1)
      fields.problem("chunk", "a chunk holds a byte at least");
    if (p.slots && p.slots->value < 1)
      fields.problem("slots", "a connection has one slot at least");
    for (const auto& [key, rate] : {std::pair("channel_rate", &p.channel_rate),
                                    {"net_channel_rate", &p.net_channel_rate},
                                    {"proxy_rate", &p.proxy_rate}})
      if (*rate && (*rate)->value.value <= 0) fields.problem(key, "a rate is more than zero");
  });
}
/// The link classes by their names in a file.
struct Links {
  std::array<LinkClass, kPathClasses>& of;
};
template <class Fields>
void describe(Fields& f, Links& links) {
  for (std::size_t k = 0; k < kPathClasses; ++k)
    f.optional(name_of(static_cast<PathClass>(k)), links.of[k], "links and messages of this class");
}
template <class Fields>
void describe(Fields& f, Compared& c) {
  f.required("instance", c.instance, "of which type");
  f.required("nodes", c.nodes, "numbers of nodes compared, ascending", Limits::at_least(1));
  f.verify([&](auto& fields) {
    if (c.nodes.empty() || !std::is_sorted(c.nodes.begin(), c.nodes.end()))
      fields.problem("nodes", "one number or more, ascending");
  });
  f.optional("per_node_least", c.per_node_least, "fewest GPUs a node compared",
             Limits::at_least(1));
  f.optional("per_node_most", c.per_node_most, "most GPUs a node compared", Limits::at_least(1));
}
template <class Fields>
void describe(Fields& f, Accuracy& a) {
  std::string collective(a.collective == Collective::all_reduce ? "" : name_of(a.collective));
  std::vector<std::string> collectives;
  for (const Collective c : kCollectives) collectives.emplace_back(name_of(c));
  f.optional("collective", collective, "which was compared; default: all_reduce",
             OneOf{"collective", collectives});
  f.verify([&](auto&) {
    if (const auto named = collective_named(collective)) a.collective = *named;
  });
  f.required("least", a.least, "smallest size compared");
  f.required("most", a.most, "largest size compared");
  f.required("compared", a.compared, "on which clusters");
  f.required("spread", a.spread, "factor either way that holds 90 % of published times",
             Limits::at_least(1));
  f.optional("spread_other_nodes", a.spread_other_nodes,
             "the same on numbers of nodes that the fit had not seen", Limits::at_least(1));
  f.required("points", a.points, "how many were compared");
  f.optional("seen", a.seen, "the fit had seen them");
  f.required("source", a.source, "which");
}
template <class Fields>
void describe(Fields& f, Profile& p) {
  f.required("profile", p.name, "its name");
  f.optional("note", p.note, "anything a reader should know");
  f.required("library", p.library, "whose transport this is");
  f.optional("instances", p.instances, "instance types it was made for");
  constexpr const char* kNone = "none";
  std::string fabric = p.needs_fabric ? kNone : p.fabric ? to_text(*p.fabric) : "";
  std::vector<std::string> fabrics = names_of<Fabric>();
  fabrics.emplace_back(kNone);
  f.optional("fabric", fabric, "what is between nodes; none: it must be joined to a fabric's",
             OneOf{"fabric", fabrics});
  f.verify([&](auto&) {
    p.needs_fabric = fabric == kNone;
    p.fabric = value_named<Fabric>(fabric);
  });
  f.optional(
      "nccl_release", p.nccl_release,
      "the release of NCCL that it was fitted with: what it chooses, unless another is asked "
      "for",
      OneOf{"release of NCCL", nccl_releases()});
  f.optional("nearest_for", p.nearest_for, "GPU families of other machines that it stands in for");
  f.optional("several_kinds", p.several_kinds,
             "these differ so much that measurements of one say little of the others");
  f.optional("launch", p.launch, "once an all-reduce");
  f.optional("reduce_bandwidth", p.reduce_bandwidth,
             "bytes of arriving data that a device reduces per second");
  f.optional("channels", p.channels, "between nodes");
  f.optional("channels_one_node", p.channels_one_node, "inside one node");
  f.optional("channels_nvls", p.channels_nvls, "of NVLS between nodes");
  f.optional("channels_nvls_one_node", p.channels_nvls_one_node, "of NVLS inside one node");
  f.verify([&](auto& fields) {
    for (const auto& [key, channels] : {std::pair("channels", &p.channels),
                                        {"channels_one_node", &p.channels_one_node},
                                        {"channels_nvls", &p.channels_nvls},
                                        {"channels_nvls_one_node", &p.channels_nvls_one_node}})
      if (*channels && !((*channels)->value >= 1 && (*channels)->value <= 1024))
        fields.problem(key, "channels are 1 to 1024");
  });
  f.optional("in_switch", p.in_switch,
             "of NVLink's bandwidth that reduction in the switch reaches");
  f.optional("in_switch_one_node", p.in_switch_one_node,
             "the same of one host alone, where it differs");
  f.optional("in_switch_sync", p.in_switch_sync, "what each chunk takes longer there");
  f.optional("in_switch_sync_one_node", p.in_switch_sync_one_node,
             "the same of one host alone, where it differs");
  Links links{p.links};
  f.optional("links", links, "by class");
  f.optional("protocols", p.protocols, "ways to send");
  f.optional("accuracy", p.accuracy, "what it was compared with");
}

namespace {

/// Escaped where YAML would read something else.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text)
    out += c == '"' || c == '\\'                               ? std::string("\\") + c
           : static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? fmt::format("\\x{:02x}", c)
                                                               : std::string(1, c);
  return out + "\"";
}

/// The reader's twin: the same description, written out as YAML.
class FieldWriter {
 public:
  template <class T>
  static std::string of(T& value, int indent) {
    FieldWriter fields(indent);
    describe(fields, value);
    return fields.text_;
  }
  template <class T, class... Rule>
  void required(const char* key, T& value, const char*, const Rule&...) {
    put(key, value);
  }
  template <class T, class... Rule>
  void optional(const char* key, T& value, const char*, const Rule&...) {
    put(key, value);
  }
  template <class Check>
  void verify(Check) {}

 private:
  explicit FieldWriter(int indent) : indent_(indent) {}

  static std::string scalar(const std::string& v) { return quoted(v); }
  static std::string scalar(double v) { return fmt::format("{:.9g}", v); }
  static std::string scalar(Seconds v) { return fmt::format("{:.9g} us", v.value * 1e6); }
  static std::string scalar(Bytes v) {
    return fmt::format("{:.17g} B", v.value);
  }  // sizes are compared with what is asked
  static std::string scalar(BytesPerSecond v) { return fmt::format("{:.9g} GB/s", v.value / 1e9); }

  void line(const std::string& text) { text_ += fmt::format("{:{}}{}\n", "", indent_, text); }
  template <class T>
  void put(const char* key, T& value) {
    if constexpr (IsOptional<T>::value) {
      if (value) put(key, *value);
    } else if constexpr (IsVector<T>::value) {
      if (value.empty()) return;
      using Item = typename T::value_type;
      if constexpr (std::is_same_v<Item, std::string> || IsQuantity<Item>::value ||
                    std::is_arithmetic_v<Item>) {
        std::string all;
        for (const Item& item : value) all += (all.empty() ? "" : ", ") + scalar(item);
        line(fmt::format("{}: [{}]", key, all));
      } else {
        line(fmt::format("{}:", key));
        for (Item& item : value) {
          std::string block = of(item, indent_ + 4);
          block.replace(static_cast<std::size_t>(indent_) + 2, 1, "-");
          text_ += block;
        }
      }
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value.empty()) line(fmt::format("{}: {}", key, scalar(value)));
    } else if constexpr (std::is_same_v<T, bool>) {
      if (value) line(fmt::format("{}: yes", key));
    } else if constexpr (HasWords<T>) {
      line(fmt::format("{}: {}", key, scalar(to_text(value))));
    } else if constexpr (IsQuantity<T>::value || std::is_arithmetic_v<T>) {
      line(fmt::format("{}: {}", key, scalar(value)));
    } else {
      const std::string block = of(value, indent_ + 2);
      if (!block.empty()) text_ += fmt::format("{:{}}{}:\n{}", "", indent_, key, block);
    }
  }

  int indent_;
  std::string text_;
};

/// Visits the description of a profile and collects its free parameters.
class FreeParameterFinder {
 public:
  FreeParameterFinder(std::vector<FreeParameter>& found, std::string path)
      : found_(found), path_(std::move(path)) {}
  template <class T, class... Rule>
  void required(const char* key, T& value, const char*, const Rule&...) {
    visit(key, value);
  }
  template <class T, class... Rule>
  void optional(const char* key, T& value, const char*, const Rule&...) {
    visit(key, value);
  }
  template <class Check>
  void verify(Check) {}

 private:
  /// Initial values by the end of a parameter's name. They are constants, because the profile's own
  /// value was fitted to the sources that a cross-validation leaves out.
  static double start_of(const std::string& name) {
    constexpr std::pair<const char*, double> starts[] = {{"network.latency", 30e-6},
                                                         {"network.efficiency", 0.8},
                                                         {"network.overhead", 4e-6},
                                                         {"nvlink.latency", 1.5e-6},
                                                         {"in_switch", 0.7},
                                                         {"in_switch_one_node", 0.7},
                                                         {"in_switch_sync", 4e-6},
                                                         {"in_switch_sync_one_node", 4e-6},
                                                         {"launch", 8e-6},
                                                         {"net_hop", 20e-6},
                                                         {"hop", 5e-6},
                                                         {"overhead", 4e-6},
                                                         {"channel_rate", 20e9},
                                                         {"proxy_rate", 6e9},
                                                         {"gap", 10e-6},
                                                         {"reduce_bandwidth", 300e9},
                                                         {"efficiency", 0.8},
                                                         {"latency", 5e-6}};
    for (const auto& [ending, value] : starts)
      if (name.ends_with(ending)) return value;
    throw std::logic_error("a fit of " + name + " has no value to begin from");
  }
  static double& base(double& value) { return value; }
  template <class Kind>
  static double& base(Quantity<Kind>& value) {
    return value.value;
  }

  template <class Q>
  void visit(const std::string& key, std::optional<Estimated<Q>>& number) {
    if (!number || number->origin != NumberOrigin::fitted) return;
    Estimated<Q>* at = &*number;
    std::optional<std::array<double, 2>> known;
    if (at->interval) known = {base((*at->interval)[0]), base((*at->interval)[1])};
    found_.push_back(
        {path_ + key, &base(at->value),
         key == "efficiency" || key == "in_switch" || key == "in_switch_one_node"
             ? 1
             : std::numeric_limits<double>::infinity(),
         start_of(path_ + key), known,
         [at](std::optional<std::array<double, 2>> interval, const std::string& source) {
           at->interval.reset();
           if (interval) at->interval = std::array<Q, 2>{Q{(*interval)[0]}, Q{(*interval)[1]}};
           at->source = source;
         }});
  }
  void visit(const std::string& key, std::vector<Protocol>& protocols) {
    for (Protocol& p : protocols) into(key + "." + p.name, p);
  }
  template <class T>
  void visit(const std::string& key, T& value) {
    if constexpr (std::is_same_v<T, LinkClass> || std::is_same_v<T, Links>) into(key, value);
  }
  template <class T>
  void into(const std::string& key, T& value) {
    FreeParameterFinder inner(found_, path_ + key + ".");
    describe(inner, value);
  }
  std::vector<FreeParameter>& found_;
  std::string path_;
};

}  // namespace

Profile read_profile(YamlFile file) {
  Profile profile;
  read_file(file, profile);
  return profile;
}

Profile load_profile(const std::filesystem::path& file) {
  Profile profile = read_profile(YamlFile::load(file));
  profile.file = file;
  return profile;
}

std::string text_of(const Profile& profile) {
  Profile copy = profile;  // a description may be of a reader's target, so it takes no const
  return FieldText::of(copy);
}

std::string to_yaml(const Profile& profile) {
  Profile copy = profile;
  return FieldWriter::of(copy, 0);
}

std::vector<FreeParameter> free_parameters(Profile& profile) {
  std::vector<FreeParameter> found;
  FreeParameterFinder fields(found, "");
  describe(fields, profile);
  return found;
}

}  // namespace foreduce
