// Inside the libfabric module: which interfaces there are, and how an endpoint on one of them is
// opened.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "real/keep_signals.hpp"
#include "real/ofi_rail.hpp"

namespace foreduce::ofi {

void fail(const std::string& what, long code) {
  throw TransportError(
      fmt::format("libfabric: {}: {}", what, fi_strerror(static_cast<int>(std::abs(code)))));
}

void check(long code, const std::string& what) {
  if (code != 0) fail(what, code);
}

Info query(const std::string& provider, std::size_t segment_bytes, DeviceKind devices) {
  const KeepSignals keep;
  const bool hmem = devices == DeviceKind::cuda;
  // Without this, rxm would ask the receiver before it sends more than 16 KiB, and that round trip
  // would queue behind bulk data of the other direction. Receives are posted in advance, so
  // segments may come at once. The provider queues what finds none.
  ::setenv("FI_OFI_RXM_EAGER_LIMIT", std::to_string(segment_bytes + 4096).c_str(), 0);
  const Info hints(fi_allocinfo());
  hints->caps = FI_TAGGED | (hmem ? FI_HMEM : 0);
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode =
      FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | (hmem ? FI_MR_HMEM : 0);
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->tx_attr->op_flags = FI_COMPLETION;
  if (!provider.empty()) hints->fabric_attr->prov_name = ::strdup(provider.c_str());
  fi_info* found = nullptr;
  if (fi_getinfo(FI_VERSION(1, 14), nullptr, nullptr, 0, hints.get(), &found) != 0) return nullptr;
  return Info(found);
}

std::vector<std::string> providers() {
  std::set<std::string> names;
  const Info all = query("", 0, DeviceKind::none);
  for (const fi_info* info = all.get(); info; info = info->next)
    names.insert(info->fabric_attr->prov_name);
  return {names.begin(), names.end()};
}

namespace {

std::string ip_address(const fi_info& info) {
  char text[64] = "";
  if (info.addr_format == FI_SOCKADDR_IN && info.src_addr)
    ::inet_ntop(AF_INET, &static_cast<sockaddr_in*>(info.src_addr)->sin_addr, text, sizeof text);
  return text;
}

/// A bridge for containers or virtual machines (docker0, virbr0) has the same address on every
/// host, so that a peer's would be the own host's.
bool is_bridge(const fi_info& info) {
  return info.domain_attr->name && std::filesystem::exists(std::filesystem::path("/sys/class/net") /
                                                           info.domain_attr->name / "bridge");
}

}  // namespace

std::vector<fi_info*> choose_interfaces(fi_info* all, const OfiOptions& options) {
  std::vector<fi_info*> chosen;
  std::set<std::string> domains;
  const auto take = [&](fi_info* info) {
    if (domains.insert(info->domain_attr->name ? info->domain_attr->name : "").second)
      chosen.push_back(info);
  };
  const bool loopback = options.address.starts_with("127.");
  for (fi_info* info = all; info; info = info->next)
    if (!options.address.empty() && ip_address(*info) == options.address) take(info);
  for (fi_info* info = all; info; info = info->next) {
    const bool other_family =
        info->addr_format == FI_SOCKADDR_IN6 || info->addr_format == FI_SOCKADDR_IB;
    if (!other_family && !is_bridge(*info) &&
        (ip_address(*info).empty() || ip_address(*info).starts_with("127.") == loopback))
      take(info);
  }
  if (chosen.empty()) return chosen;
  const std::size_t distinct = chosen.size();
  // Where interfaces have no IP address (EFA), each of the host's ranks begins with another
  // interface.
  if (ip_address(*chosen[0]).empty()) {
    const std::size_t first = static_cast<std::size_t>(options.first_interface) % distinct;
    std::rotate(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(first), chosen.end());
  }
  for (std::size_t i = distinct; i < static_cast<std::size_t>(options.rails); ++i)
    chosen.push_back(chosen[i % distinct]);
  chosen.resize(static_cast<std::size_t>(options.rails));
  return chosen;
}

Rail::Rail(fi_info* info, const OfiOptions& options)
    : info_(info),
      segment_bytes_(options.segment_bytes),
      posted_receives_(options.posted_receives),
      devices_(options.devices),
      registers_(options.register_always || (info->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
  fid_fabric* fabric = nullptr;
  check(fi_fabric(info_->fabric_attr, &fabric, nullptr), "opening the fabric");
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  check(fi_domain(fabric, info_, &domain, nullptr), "opening the domain");
  domain_.reset(domain);
  fi_av_attr attributes{};
  attributes.type =
      info_->domain_attr->av_type == FI_AV_UNSPEC ? FI_AV_TABLE : info_->domain_attr->av_type;
  fid_av* addresses = nullptr;
  check(fi_av_open(domain, &attributes, &addresses, nullptr), "opening the address vector");
  addresses_.reset(addresses);
  open_completions();
  open_endpoint();
  for (int i = 0; i < posted_receives_; ++i) post_receive();
}

void Rail::open_completions() {
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_TAGGED;
  attributes.wait_obj = FI_WAIT_FD;
  attributes.size = 4096;
  fid_cq* completions = nullptr;
  if (fi_cq_open(domain_.get(), &attributes, &completions, nullptr) != 0) {
    attributes.wait_obj = FI_WAIT_NONE;  // EFA has no descriptor and must be polled
    check(fi_cq_open(domain_.get(), &attributes, &completions, nullptr),
          "opening the completion queue");
  }
  completions_.reset(completions);
  if (attributes.wait_obj == FI_WAIT_FD)
    check(fi_control(&completions->fid, FI_GETWAIT, &fd_),
          "asking for the completion queue's descriptor");
}

void Rail::open_endpoint() {
  fid_ep* endpoint = nullptr;
  check(fi_endpoint(domain_.get(), info_, &endpoint, nullptr), "opening the endpoint");
  endpoint_.reset(endpoint);
  check(fi_ep_bind(endpoint, &addresses_->fid, 0), "binding the address vector");
  check(fi_ep_bind(endpoint, &completions_->fid, FI_TRANSMIT | FI_RECV),
        "binding the completion queue");
  // Without this, EFA accepts device memory that it cannot reach and copies it through the host.
  int direct = FI_HMEM_P2P_REQUIRED;
  if (devices_ == DeviceKind::cuda &&
      fi_setopt(&endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &direct, sizeof direct) != 0)
    devices_ = DeviceKind::none;
  check(fi_enable(endpoint), "enabling the endpoint");
}

EndpointName Rail::name() const {
  EndpointName name(kEndpointNameBytes);
  std::size_t length = name.size();
  check(fi_getname(&endpoint_->fid, name.data(), &length), "asking for the endpoint's address");
  name.resize(length);
  return name;
}

void Rail::expect_ranks(std::size_t ranks, const RunToken& token) {
  peers_.assign(ranks, FI_ADDR_UNSPEC);
  token_ = token;
}

void Rail::connect(std::size_t rank, const EndpointName& name) {
  // libfabric knows from its own address format how much to read. Text ends with a zero.
  EndpointName padded = name;
  padded.resize(kEndpointNameBytes + 1);
  const bool fits = info_->addr_format == FI_ADDR_STR || name.size() == this->name().size();
  if (!fits || fi_av_insert(addresses_.get(), padded.data(), 1, &peers_[rank], 0, nullptr) != 1)
    throw TransportError(fmt::format("libfabric: the address of rank {} is not accepted", rank));
}

int Rail::may_sleep(std::vector<pollfd>& wait_for) {
  if (fd_ < 0) return 0;
  fid* waits[] = {&completions_->fid};
  if (fi_trywait(fabric_.get(), waits, 1) != 0) return 0;
  wait_for.push_back({fd_, POLLIN, 0});
  // A full provider does not report that it has room again, and a connection that is being made
  // causes no completion.
  if (!backlog_.empty()) return 1;
  return sends_posted_ > 0 ? 20 : -1;
}

}  // namespace foreduce::ofi
