// GPUs by their PCI device ids (topologies/pci_ids.csv).
#pragma once

#include <string>

namespace foreduce {

/// The catalogue's name of a GPU, from NVIDIA's PCI device id ("0x20b0"); empty: unknown.
std::string gpu_model_of(const std::string& device);
/// The other way round.
std::string pci_device_of(const std::string& model);
/// A GPU's name with "RTX PRO 6000" as "RTXPRO6000": the first word of a model is its family.
std::string with_family_joined(std::string name);
/// The device id of the GPU that lspci names: "GA100 [A100 SXM4 40GB]"; empty: unknown, or several
/// could be meant.
std::string pci_device_named(const std::string& name);

}  // namespace foreduce
