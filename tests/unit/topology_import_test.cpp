// Machines from dumps: AWS's own files beside the catalogue, exports read back, nvidia-smi's table,
// and damaged files.
#include <gtest/gtest.h>

#include "input/field_yaml.hpp"
#include "scenarios/report/written_files.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"
#include "topologies/export_nccl.hpp"

namespace foreduce {
namespace {

using namespace test;

std::filesystem::path sample(const std::string& name) {
  return source_folder() / "tests" / "topologies" / name;
}

ImportedMachine imported(const std::string& name, const std::string& like = "") {
  return import_machine(load_topology_dump(sample(name)), {.name = "", .like = like});
}

/// All that makes a machine's graph, as text.
std::string graph_of(const Machine& m) {
  std::string text;
  for (const YamlLine& line : lines_of(m))
    for (const char* part : {"gpu.count", "gpu.model", "nvlink.kind", "nvlink.links",
                             "nvlink.edges", "host.sockets", "pcie.bandwidth", "pcie.switches",
                             "nic.count", "nic.bandwidth", "nic.efa", "nic.gpudirect"})
      if (line.path.starts_with(part) && !line.path.starts_with("nic.efa_"))
        text += line.path + " " + line.value + "\n";
  return text;
}

TEST(TopologyImport, AwsFilesGiveTheCataloguesGraphs) {
  for (const auto& [file, type] : {std::pair{"p4d-24xl-topo.xml", "p4d.24xlarge"},
                                   std::pair{"p4de-24xl-topo.xml", "p4de.24xlarge"}}) {
    const ImportedMachine m = imported(file);
    EXPECT_EQ(m.base, type);
    EXPECT_EQ(graph_of(m.machine), graph_of(Catalogue().load(type)));
    // The processor's name is all that AWS's file has otherwise.
    ASSERT_EQ(m.differences.size(), 1u);
    EXPECT_SAYS(m.differences[0], "host.cpu: \"GenuineIntel family 6 model 85\"; in p4d");
    EXPECT_EQ(m.machine.type(), type) << "its profile and published runs apply";
  }
}

// AWS's file of g5 hangs each device on its socket; the catalogue has four below one switch.
TEST(TopologyImport, NamesDifferencesFromTheCatalogue) {
  EXPECT_SAYS(error_of([] { imported("g5.48xl-topo.xml"); }), "does not tell what its GPUs are");
  const ImportedMachine m = imported("g5.48xl-topo.xml", "g5.48xlarge");
  ASSERT_EQ(m.differences.size(), 1u);
  EXPECT_SAYS(m.differences[0], "pcie.switches");
  ASSERT_EQ(m.machine.pcie->switches.size(), 9u);
  EXPECT_EQ(m.machine.pcie->switches[8].socket, 1);
  EXPECT_EQ(m.machine.pcie->switches[8].nics, std::vector<int>{0});
}

TEST(TopologyImport, MarksEveryNumberAsToldOrAssumed) {
  const std::string text = machine_file(imported("p4d-24xl-topo.xml"), "test");
  EXPECT_SAYS(text, "count: 8 @dump    # GPUs in the dump");
  EXPECT_SAYS(text, "bandwidth: 12 GB/s @dump    # link_speed x link_width");
  EXPECT_SAYS(text, "latency: 15.5 us @assumed    # as p4d.24xlarge");
  const TemporaryFolder folder;
  // The catalogue's rule: no number without a source.
  EXPECT_EQ(error_of([&] { (void)load_machine(folder.write("m.yaml", text), Citing::required); }),
            "(accepted)");
}

TEST(TopologyImport, IsWrittenAsAMachineFileThatLoads) {
  const TemporaryFolder folder;
  const ImportedMachine m = imported("g5.48xl-topo.xml", "g5.48xlarge");
  const Machine read = load_machine(folder.write("m.yaml", machine_file(m, "test")));
  EXPECT_EQ(text_of(read), text_of(m.machine));
}

// What topology --nccl writes comes back with nothing lost, for every machine that has GPUs on
// PCIe.
TEST(TopologyImport, ReadsBackWhatWasExported) {
  int machines = 0;
  const Catalogue catalogue;
  for (const std::string& type : catalogue.names()) {
    const Machine m = catalogue.load(type);
    if (m.cpu_only() || !m.pcie) continue;
    ++machines;
    const TopologyDump dump = parse_nccl_topology("x.xml", to_nccl_topology(m));
    const ImportedMachine back = import_machine(dump, {});
    EXPECT_EQ(back.machine.gpu->model, m.gpu->model) << type;
    const ImportedMachine like = import_machine(dump, {.name = "", .like = type});
    EXPECT_EQ(like.differences, std::vector<std::string>{}) << type;
  }
  EXPECT_GE(machines, 12);
}

// One link that came up narrower slows its GPU, not all of them.
TEST(TopologyImport, KeepsTheLinkThatIsSlowerThanTheOthers) {
  const Machine p4d = Catalogue().load("p4d.24xlarge");
  const Machine slow = p4d.with_slow_links({{"gpu3", 0.5}});
  const ImportedMachine back =
      import_machine(parse_nccl_topology("x.xml", to_nccl_topology(slow)), {});
  ASSERT_EQ(back.machine.pcie->slow_links.size(), 1u);
  EXPECT_EQ(back.machine.pcie->slow_links[0].device, "gpu3");
  EXPECT_NEAR(back.machine.pcie->slow_links[0].share, 0.5, 0.01);
  const ImportedMachine whole =
      import_machine(parse_nccl_topology("x.xml", to_nccl_topology(p4d)), {});
  EXPECT_EQ(back.machine.pcie->bandwidth, whole.machine.pcie->bandwidth);
  EXPECT_TRUE(whole.machine.pcie->slow_links.empty());
}

// The same where the machine that fills the gaps is another one, so that the graph is the dump's.
TEST(TopologyImport, TakesTheGraphFromTheDumpAlone) {
  const auto through = [](const Machine& m, const std::string& like) {
    return import_machine(parse_nccl_topology("x.xml", to_nccl_topology(m)),
                          {.name = "", .like = like})
        .machine;
  };
  const Machine dgx = load_machine(data_folder() / "topologies" / "elsewhere" / "dgx-1v.yaml");
  const Catalogue catalogue;
  const Machine p5 = catalogue.load("p5.48xlarge"), p3dn = catalogue.load("p3dn.24xlarge");
  EXPECT_EQ(graph_of(through(p5, "p4d.24xlarge")), graph_of(p5));
  EXPECT_EQ(graph_of(through(p3dn, "p4d.24xlarge")), graph_of(p3dn));
  Machine infiniband = through(dgx, "p3dn.24xlarge");
  EXPECT_EQ(graph_of(infiniband), graph_of(dgx));
}

TEST(TopologyImport, ReadsNvidiaSmi) {
  const ImportedMachine m = imported("dgx1v-smi.txt", "p3dn.24xlarge");
  const Machine dgx = load_machine(data_folder() / "topologies" / "elsewhere" / "dgx-1v.yaml");
  EXPECT_EQ(m.machine.nvlink->edges, dgx.nvlink->edges);
  EXPECT_EQ(m.machine.nvlink->links, 6);
  EXPECT_EQ(m.machine.host->sockets, 2);
  ASSERT_EQ(m.machine.pcie->switches.size(), 4u);
  for (std::size_t s = 0; s < 4; ++s) {
    EXPECT_EQ(m.machine.pcie->switches[s].gpus, dgx.pcie->switches[s].gpus);
    EXPECT_EQ(m.machine.pcie->switches[s].nics, dgx.pcie->switches[s].nics);
    EXPECT_EQ(m.machine.pcie->switches[s].socket, dgx.pcie->switches[s].socket);
  }
}

// With the numbers of -nn all that AWS's own file tells is there; a second network of the same
// machine is left out.
TEST(TopologyImport, LspciGivesTheCataloguesGraph) {
  const ImportedMachine m = imported("p4d-lspci.txt");
  EXPECT_EQ(m.base, "p4d.24xlarge");
  EXPECT_EQ(graph_of(m.machine), graph_of(Catalogue().load("p4d.24xlarge")));
  EXPECT_EQ(m.differences, std::vector<std::string>{});
  for (const char* key : {"gpu.count", "gpu.model", "nic.count", "nic.efa", "pcie.switches",
                          "pcie.bandwidth", "host.sockets"})
    EXPECT_TRUE(m.told.contains(key)) << key;
  for (const char* key : {"nic.bandwidth", "nvlink.links", "nic.gpudirect", "host.cpu"})
    EXPECT_FALSE(m.told.contains(key)) << key;
  EXPECT_SAYS(fmt::format("{}", fmt::join(m.notes, "\n")),
              "Left out beside the EFA cards: 0000:00:05.0.");
  EXPECT_SAYS(fmt::format("{}", fmt::join(m.notes, "\n")), "It lists 6 NVSwitches.");
}

// The tree alone: the same switches, and neither rates nor sockets.
TEST(TopologyImport, LspcisTreeGivesItsSwitches) {
  const ImportedMachine m = imported("p4d-lspci-tree.txt");
  EXPECT_EQ(m.base, "p4d.24xlarge") << "by the names of its GPUs";
  ASSERT_EQ(m.machine.pcie->switches.size(), 4u);
  for (const PcieSwitch& s : m.machine.pcie->switches) {
    EXPECT_EQ(s.gpus.size(), 2u);
    EXPECT_EQ(s.nics.size(), 1u);
  }
  EXPECT_EQ(m.machine.pcie->switches[3].socket, 1);
  for (const char* key : {"pcie.bandwidth", "host.sockets", "nic.efa"})
    EXPECT_FALSE(m.told.contains(key)) << key;
  const std::string notes = fmt::format("{}", fmt::join(m.notes, "\n"));
  EXPECT_SAYS(notes, "lspci -tv tells no rates");
  EXPECT_SAYS(notes, "Which socket a PCIe switch is on is assumed");
}

// Switches of a bare machine: x8 of 16 GT/s up, x16 down. The idle GPUs' links are at 2.5 GT/s, and
// both ends can do 16.
TEST(TopologyImport, FollowsLspcisBridges) {
  const ImportedMachine m = imported("switches-lspci.txt", "p4d.24xlarge");
  EXPECT_EQ(m.machine.gpu->model, "A100-PCIE-80GB");
  EXPECT_DOUBLE_EQ(m.machine.pcie->bandwidth.value, 24e9);
  EXPECT_DOUBLE_EQ(m.machine.pcie->uplink.value, 12e9);
  EXPECT_EQ(m.machine.nic.efa, 0) << "Mellanox";
  ASSERT_EQ(m.machine.pcie->switches.size(), 2u);
  EXPECT_EQ(m.machine.pcie->switches[0].gpus, (std::vector<int>{0, 1}));
  EXPECT_EQ(m.machine.pcie->switches[1].gpus, (std::vector<int>{2, 3}));
  EXPECT_EQ(m.machine.pcie->switches[1].nics, std::vector<int>{1});
  EXPECT_EQ(m.machine.pcie->switches[1].socket, 1);
  const ImportedMachine tree = imported("switches-lspci-tree.txt", "p4d.24xlarge");
  ASSERT_EQ(tree.machine.pcie->switches.size(), 2u);
  EXPECT_EQ(tree.machine.pcie->switches[0].gpus.size(), 2u);
  EXPECT_EQ(tree.machine.pcie->switches[1].nics.size(), 1u);
}

// A virtual machine that shows all on one bus, a truly slow link, and text without numbers.
TEST(TopologyImport, SaysWhatLspciDoesNotTell) {
  std::string text;
  for (int d = 0; d < 8; ++d)
    text += fmt::format(
        "00:{:02x}.0 3D controller: NVIDIA Corporation GV100GL [Tesla V100 SXM2 32GB] (rev a1)\n",
        0x16 + d);
  text += "00:1e.0 Ethernet controller: Amazon.com, Inc. Elastic Fabric Adapter (EFA)\n";
  const auto import = [](const std::string& lspci, const char* like = "") {
    return import_machine(parse_topology_dump("x.txt", lspci), {.name = "", .like = like});
  };
  const ImportedMachine m = import(text);
  EXPECT_EQ(m.base, "p3dn.24xlarge");
  EXPECT_FALSE(m.told.contains("pcie.switches"));
  EXPECT_EQ(graph_of(m.machine), graph_of(Catalogue().load("p3dn.24xlarge")));
  const std::string notes = fmt::format("{}", fmt::join(m.notes, "\n"));
  EXPECT_SAYS(notes, "who shares a PCIe switch is assumed as in p3dn.24xlarge");
  EXPECT_SAYS(notes, "LnkSta is missing");
  EXPECT_SAYS(error_of([&] { import(text.substr(text.find('\n') + 1)); }),
              "all devices are on one bus");
  const std::string slow = read_text(sample("p4d-lspci.txt"));
  const std::string at = "LnkSta:\tSpeed 8GT/s (downgraded), Width x16";
  std::string changed = slow;
  changed.replace(changed.find(at), at.size(), "LnkSta:\tSpeed 8GT/s (downgraded), Width x8");
  const Pcie pcie = *import(changed).machine.pcie;
  EXPECT_EQ(pcie.bandwidth, import(slow).machine.pcie->bandwidth);
  ASSERT_EQ(pcie.slow_links.size(), 1u);
  EXPECT_DOUBLE_EQ(pcie.slow_links[0].share, 0.5);
}

TEST(TopologyImport, SaysWhereLspciIsWrong) {
  const auto error = [](const std::string& text) {
    return error_of([&] { parse_topology_dump("x.txt", text); });
  };
  EXPECT_SAYS(error("00:00.0 Host bridge: Intel\nhello\n"), "x.txt:2:1: error: 'hello' is no line");
  EXPECT_SAYS(error("00:00.0 Host bridge: Intel\n"), "there are no GPUs of NVIDIA in it");
  EXPECT_SAYS(error("00:00.0 A: B\n00:00.0 A: B\n"), "0000:00:00.0 stands twice");
  EXPECT_SAYS(error("00:00.0 A: B\n\tNUMA node: many\n"), "x.txt:2:1");
  EXPECT_SAYS(error("-[0000:00]-+-00.0  Intel\n   \\-01.0  NVIDIA\n"),
              "x.txt:2:1: error: this branch of the tree begins below none");
  // A bridge that leads to its own bus.
  EXPECT_SAYS(error("01:00.0 PCI bridge: A\n\tBus: primary=01, secondary=01, subordinate=01\n"
                    "01:01.0 3D controller: NVIDIA\n"),
              "more than 32 switches deep");
}

// A dump of a running machine: numbers of devices, speeds, in-network copies of cards, slow cards.
TEST(TopologyImport, ReadsWhatARunningNcclAdds) {
  const std::string text = R"(<system version="1">
  <cpu host_hash="0x1" numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="8">
      <pci busid="0000:11:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
        <pci busid="0000:12:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
          <gpu dev="1" sm="90" rank="1" gdr="1"><nvlink target="0000:05:00.0" count="9" tclass="0x068000"/><nvlink target="0000:06:00.0" count="9" tclass="0x068000"/></gpu>
        </pci>
        <pci busid="0000:13:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
          <gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="0000:05:00.0" count="18" tclass="0x068000"/></gpu>
        </pci>
      </pci>
      <pci busid="0000:14:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" gdr="1"/><net name="mlx5_0" dev="1" speed="400000" port="1" gdr="1" coll="1"/></nic>
      </pci>
    </pci>
    <nic><net name="bond0" dev="2" speed="1000" port="0" gdr="0"/></nic>
  </cpu>
</system>)";
  const ImportedMachine m = import_machine(parse_nccl_topology("x.xml", text), {});
  EXPECT_EQ(m.base, "p5.48xlarge");
  EXPECT_EQ(m.machine.gpu->count, 2);
  EXPECT_EQ(m.machine.nvlink->kind, NvLinkKind::through_switch);
  EXPECT_EQ(m.machine.nvlink->links, 18);
  EXPECT_EQ(m.machine.nic.count, 1);
  EXPECT_DOUBLE_EQ(m.machine.nic.bandwidth.value, 50e9);
  EXPECT_EQ(m.machine.nic.efa, 0);
  EXPECT_DOUBLE_EQ(m.machine.pcie->bandwidth.value, 48e9);
  EXPECT_DOUBLE_EQ(m.machine.pcie->uplink.value, 24e9);
  ASSERT_EQ(m.machine.pcie->switches.size(), 1u);
  EXPECT_TRUE(m.machine.like.empty()) << "p5 has EFA, which would come with it";
  const std::string notes = fmt::format("{}", fmt::join(m.notes, "\n"));
  EXPECT_SAYS(notes, "bond0 is left out");
  EXPECT_SAYS(notes, "gpu0 0000:13:00.0");
  EXPECT_SAYS(notes, "Not written as like: p5.48xlarge");
}

TEST(TopologyImport, SaysWhereAFileIsWrong) {
  const auto error = [](const std::string& text) {
    return error_of([&] { import_machine(parse_nccl_topology("x.xml", text), {}); });
  };
  EXPECT_SAYS(error("<system>\n  <cpu>\n</system>"), "x.xml:3:");
  EXPECT_SAYS(error("<graphs/>"), "x.xml:1:1: error: there is no <system>");
  EXPECT_SAYS(error("<system/>"), "there are no GPUs in it");
  EXPECT_SAYS(error("<system><cpu>\n<pci class='0x03'/></cpu></system>"),
              "x.xml:2:2: error: a <pci> has no busid");
  EXPECT_SAYS(error("<system><cpu host_hash='1'/><cpu host_hash='2'/></system>"), "of 2 hosts");
  EXPECT_SAYS(error("<system><cpu><pci busid='a' class='0x03' device='0x1234'/></cpu></system>"),
              "GPUs with the PCI device id 0x1234 are not known here");
  std::string deep = "<system><cpu>";
  for (int i = 0; i < 100000; ++i) deep += "<pci busid='a'>";
  for (int i = 0; i < 100000; ++i) deep += "</pci>";
  EXPECT_SAYS(error(deep + "</cpu></system>"), "more than 32 switches deep");
  const auto smi = [](const std::string& text) {
    return error_of([&] { parse_smi_topology("x.txt", text); });
  };
  EXPECT_SAYS(smi("hello"), "there is no heading GPU0 GPU1");
  EXPECT_SAYS(smi(" GPU0 GPU1\nGPU0 X NV1\n"), "the table ends before its last row");
  EXPECT_SAYS(smi(" GPU0 GPU1\nGPU0 X FOO\n"), "x.txt:2:1: error: 'FOO' is no connection");
}

// Every beginning of a file, and files with letters changed, give a machine or an error: what lacks
// what a machine needs is refused.
TEST(TopologyImport, SurvivesDamagedFiles) {
  for (const char* name : {"p4d-24xl-topo.xml", "dgx1v-smi.txt", "p4d-lspci.txt",
                           "p4d-lspci-tree.txt", "switches-lspci-tree.txt"}) {
    const std::string whole = read_text(sample(name));
    const auto try_it = [&](const std::string& text) {
      return error_of([&] {
        import_machine(parse_topology_dump("x", text), {.name = "", .like = "p4d.24xlarge"});
      });
    };
    const std::size_t few = whole.size() / 500 + 1;
    std::size_t tried = 0, refused = 0;
    for (std::size_t end = 0; end < whole.size(); end += few, ++tried)
      refused += try_it(whole.substr(0, end)) != "(accepted)";
    EXPECT_GT(refused, tried / 10) << name;
    EXPECT_EQ(try_it(whole), "(accepted)") << name;
    for (std::size_t at = 0; at < whole.size(); at += 2 * few)
      for (const char letter : {'9', '"', '<', ' '}) {
        std::string damaged = whole;
        damaged[at] = letter;
        try_it(damaged);
      }
  }
}

// Two cards of ten are the storage's, as on most machines with a card for each GPU.
TEST(TopologyImport, LeavesOutCardsThatAreAtNoGpu) {
  const TemporaryFolder folder;
  const std::string rows =
      "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\n"
      "GPU0\t X \tNV18\tPIX\tNODE\tNODE\t0-55\n"
      "GPU1\tNV18\t X \tNODE\t{}\tPIX\t0-55\n"
      "NIC0\tPIX\tNODE\t X \tNODE\tNODE\n"
      "NIC1\tNODE\t{}\tNODE\t X \tNODE\n"
      "NIC2\tNODE\tPIX\tNODE\tNODE\t X \n";
  const auto import = [&](const char* link) {
    return import_machine(
        load_topology_dump(
            folder.write("smi.txt", fmt::format(fmt::runtime(rows), link, link)).string()),
        {.name = "", .like = "hgx-h200-ib"});
  };
  const ImportedMachine m = import("NODE");
  EXPECT_EQ(m.machine.nic.count, 2);
  EXPECT_EQ(m.machine.pcie->switches.size(), 2u);
  EXPECT_SAYS(fmt::format("{}", fmt::join(m.notes, " ")), "The NIC NIC1 is left out");
  EXPECT_EQ(import("PIX").machine.nic.count, 3);  // a second one at a GPU is used
}

// A dump without PCI vendors names the card as its driver does.
TEST(TopologyImport, KnowsMlx5CardsByTheirDriver) {
  const TemporaryFolder folder;
  const std::string smi = folder
                              .write("smi.txt",
                                     "\tGPU0\tGPU1\tNIC0\n"
                                     "GPU0\t X \tPIX\tPIX\n"
                                     "GPU1\tPIX\t X \tPIX\n"
                                     "NIC0\tPIX\tPIX\t X \n\n"
                                     "NIC Legend:\n\n  NIC0: mlx5_0\n")
                              .string();
  const ImportedMachine m =
      import_machine(load_topology_dump(smi), {.name = "", .like = "g6e.12xlarge"});
  EXPECT_EQ(m.machine.nic.efa, 0);
  EXPECT_EQ(m.machine.fabric(), Fabric::rdma);
  bool told = false;
  for (const auto& [key, why] : m.told) told = told || why.find("driver mlx5") != std::string::npos;
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace foreduce
