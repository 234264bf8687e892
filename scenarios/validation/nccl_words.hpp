// Words, numbers and column headings of nccl-tests' output.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foreduce::nccl_words {

using Words = std::vector<std::string_view>;
using std::string_view;

inline constexpr double kMaxRanks = 1 << 20, kMaxSize = 1e15;

/// NCCL's settings that change how fast it is (its documentation of environment variables).
inline constexpr const char* kSettings[] = {"NCCL_ALGO",
                                            "NCCL_PROTO",
                                            "NCCL_MAX_NCHANNELS",
                                            "NCCL_MIN_NCHANNELS",
                                            "NCCL_MAX_CTAS",
                                            "NCCL_MIN_CTAS",
                                            "NCCL_BUFFSIZE",
                                            "NCCL_NTHREADS",
                                            "NCCL_P2P_DISABLE",
                                            "NCCL_P2P_LEVEL",
                                            "NCCL_SHM_DISABLE",
                                            "NCCL_NVLS_ENABLE",
                                            "NCCL_NET_GDR_LEVEL",
                                            "NCCL_NET_GDR_READ",
                                            "NCCL_IB_DISABLE",
                                            "NCCL_NET",
                                            "NCCL_CROSS_NIC",
                                            "NCCL_TREE_THRESHOLD",
                                            "NCCL_LL_THRESHOLD",
                                            "NCCL_SOCKET_NTHREADS",
                                            "NCCL_NSOCKS_PERTHREAD",
                                            "NCCL_PXN_DISABLE",
                                            "NCCL_IB_HCA",
                                            "NCCL_P2P_NET_CHUNKSIZE",
                                            "NCCL_NET_PLUGIN",
                                            "NCCL_TUNER_PLUGIN",
                                            "NCCL_IB_QPS_PER_CONNECTION",
                                            "NCCL_IB_SPLIT_DATA_ON_QPS",
                                            "NCCL_IB_ADAPTIVE_ROUTING",
                                            "NCCL_IB_PCI_RELAXED_ORDERING",
                                            "NCCL_DMABUF_ENABLE",
                                            "NCCL_NCHANNELS_PER_NET_PEER"};

/// Where the numbers of a row stand: words counted from the type's.
struct Columns {
  int redop = -1, root = -1;
  int time[2] = {-1, -1}, algbw[2] = {-1, -1}, busbw[2] = {-1, -1},
      wrong[2] = {-1, -1};     ///< out of place, in place
  std::size_t words = 0;       ///< of a row, from the type on
  bool timestamp = false;      ///< two more words
  bool cpu_time = false;       ///< times are of the CPU (-C 1), bandwidths of the GPU all the same
  bool largest_error = false;  ///< `wrong` is an error, as tests before 2.12 print it, not a count
};

/// In lower case, ASCII alone.
std::string lower(std::string text);
/// The words of a line, between spaces and tabs.
Words split(string_view line);
/// Cells of a table of nccl-tests at least: size, count, type, time, algbw and busbw.
inline constexpr std::ptrdiff_t kFewestCells = 6;
struct CellLine {
  std::string words;  ///< between spaces, as nccl-tests prints them
  char between = '|';
  bool is_heading = false;
};
/// The line of a Markdown table or of CSV, with |, commas or semicolons between its cells, as
/// words between spaces: "size count type …" of the heading "| Size (B) | Count (elements) | …",
/// and the numbers of its rows. Nothing for other lines.
std::optional<CellLine> words_of_cells(string_view line);
/// Whether a line begins with a digit and has cells enough for a row of such a table.
bool begins_as_row_of(string_view line, char between);
/// Whether a line is a comment whose # was lost, as where a log was pasted into a web page.
bool lacks_sign(const Words& words);
/// Of ranks by host: "10 on a, 6 on b"; "" where all have as many.
std::string uneven_words(const std::map<std::string, int>& hosts);
/// Without a terminal's sequences, such as ESC[31m.
std::string without_colours(string_view line);
/// Without what mpirun puts before each piece that a rank writes, also in the middle of a line:
/// "[1,0]<stdout>:".
std::string without_tags(string_view line);
/// A whole word as a finite number that is not negative.
std::optional<double> number(string_view word);
/// What the line "nThread 1 nGpus 8 minBytes 8 maxBytes 1073741824 …" says of a run.
struct AskedRun {
  double bytes = 0;      ///< up to which; 0: unknown
  int each_process = 1;  ///< GPUs of a process
};
AskedRun asked_in(const Words& words);
/// Half of the last digit that is printed: 0.05 of "1.1", 0.5 of "34".
double half_digit(string_view word);
/// The same, and infinity for what is no number ("nan", "-inf"), as errors may be.
std::optional<double> number_or_none(string_view word);
/// A whole number without a sign, of at most 15 digits.
std::optional<double> whole(string_view word);
/// A row's size or count: a whole number, also with commas between its thousands, or with a prefix
/// of nccl-tests' -b: 16K is 16,384.
std::optional<double> amount(string_view word);
/// The same as whole() up to kMaxRanks.
std::optional<int> small(string_view word);
/// Bytes of "32KiB" or "16GB", both powers of 1024; nothing for another word, or beyond kMaxSize.
std::optional<double> binary_size(string_view word);
/// GB/s of "107.16GBps".
std::optional<double> in_gbps(string_view word);
/// "NVIDIA H200" of the words from "…name='NVIDIA" on; empty where no quote ends it soon.
std::string quoted_from(const Words& words, std::size_t first);
/// "2.26.2" of the words "2,", "26," and "2)"; empty for others.
std::string dotted(const Words& words);
/// Bytes of an element type by nccl-tests' name; 0 for an unknown one.
double bytes_of(string_view type);
/// "all_reduce" of "./build/all_reduce_perf".
std::string collective_of(string_view program);
/// What the rows of a table have in common.
struct TableSigns {
  double low = 0, high = 0;              ///< range of busbw over algbw
  int ranks = 0;                         ///< 0: unknown
  bool reduces = false;                  ///< the column redop names an operation
  bool rooted = false;                   ///< the column root names a rank
  std::optional<bool> in_blocks;         ///< count is of a block, size of all ranks' blocks
  std::optional<bool> in_place_checked;  ///< results in place were, as those out of place were
};
/// What a table may be of, where nothing names it: all_reduce if it can be, else every collective
/// of nccl-tests that it can be. alltoall_perf and sendrecv_perf never check what is in place.
std::vector<std::string> collectives_like(const TableSigns& signs);
/// From the words of the header, from "type" on: by their names, whatever else stands between them.
/// Nothing where a half lacks time, algbw or busbw, or they have another order.
std::optional<Columns> columns_of(const Words& names);
/// Where a table has lost its header: by what the words look like.
std::optional<Columns> columns_like(const Words& words);
/// The last test's program among a line's words: "./build/all_reduce_perf". One of a collective
/// that is not judged counts where options follow. Empty: there is none, or a build says what it
/// makes.
string_view test_in(const Words& words);
/// Whether one of a line's words starts processes: mpirun, srun and the like.
bool launches(const Words& words);
/// A word without the "[3]" at its end that a launcher puts before each piece that a rank writes.
string_view without_mark(string_view word);
/// A word without what a page, an export or a program's text leaves at the end of a line.
string_view without_tail(string_view word);
/// A word that stands in a row's columns behind the type: a number, also nan, or "N/A".
bool is_value(string_view word);
/// A word without what a launcher puts before it: "8" of "<stdout>:8".
string_view without_prefix(string_view word);
/// Where among a line's words a row begins: a size, a count and a type.
std::optional<std::size_t> row_begins(const Words& words);
/// The host of "host:process:thread [device] NCCL INFO …", behind whatever prefix; "" of others.
std::string host_in(string_view line);
/// Whether NCCL printed a line (NCCL_DEBUG).
bool is_of_nccl(string_view line);
/// Where NCCL's words begin in a line that begins with a part of a row, to which they cling:
/// "  8  2  float  sum  -1host:41:41 [0] NCCL INFO …". 0: it is no such line. `host`: whose name
/// stands before NCCL's other words; where that is another, it begins behind the number.
std::size_t where_nccl_begins(string_view line, string_view host);
/// A row from the type on without such marks, and with "none" where older tests leave the operation
/// out: where `columns` name one, a number stands in its place, and one word is missing.
Words whole_row(Words words, const std::optional<Columns>& columns);

}  // namespace foreduce::nccl_words
