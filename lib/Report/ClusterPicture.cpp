//===- ClusterPicture.cpp - Nodes, devices and links ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Nodes stand below each other, and links are brackets beside them. Nodes that
// nothing tells apart are drawn once. Where there are too many kinds of nodes
// for brackets, a table has the links.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/Text.h"
#include "ReportSections.h"
#include <algorithm>
#include <cmath>

using namespace poplar;

/// In pixels.
static constexpr double boxWidth = 222, square = 18, gap = 5, lineHeight = 18,
                        padding = 10, margin = 14, laneWidth = 92,
                        busWidth = 132;
static constexpr int squaresPerRow = 8, mostSquares = 16;
/// Kinds of nodes: in brackets, in the table, at all.
static constexpr size_t mostInBrackets = 4, mostInTable = 16;

namespace {

class Picture {
public:
  explicit Picture(const ReportInput &input)
      : input(input), cluster(input.cluster) {}
  std::string draw();

private:
  using Speed = std::optional<LinkSpeed>;
  /// Nodes that are alike, and links between those of two kinds.
  struct Kind {
    std::vector<int> nodes;
    /// What a node has of each type, and how many of them are in the job.
    std::vector<std::pair<int64_t, int64_t>> devices;
  };
  struct Box {
    std::string svg;
    double height;
  };

  Kind describe(int node) const;
  bool areAlike(int node, const Kind &kind, const Kind &description) const;
  void findKinds();
  Box drawBox(const Kind &kind) const;
  std::string drawText(double x, double y, const std::string &text,
                       const char *what) const;
  std::string drawBrackets(const std::vector<Box> &boxes) const;
  std::string drawTable(const std::vector<Box> &boxes) const;
  Speed getSpeed(size_t from, size_t to) const;
  bool hasOneSpeed() const;
  std::string nameKind(const Kind &kind) const;

  const ReportInput &input;
  const ClusterView &cluster;
  std::vector<Kind> kinds;
};

} // namespace

std::string poplar::getTypeColor(size_t type) {
  return "type" + std::to_string(type % 6);
}

static bool areEqual(const std::optional<LinkSpeed> &a,
                     const std::optional<LinkSpeed> &b) {
  return a.has_value() == b.has_value() &&
         (!a || (a->bandwidth == b->bandwidth && a->latency == b->latency));
}

static std::string formatBandwidth(const LinkSpeed &speed) {
  return formatScaled(speed.bandwidth) + "B/s";
}

/// Latency that is worth words.
static std::string formatDelay(const LinkSpeed &speed) {
  return speed.latency >= 5e-4 ? formatTime(speed.latency) : "";
}

static std::string formatSpeed(const LinkSpeed &speed) {
  std::string delay = formatDelay(speed);
  return formatBandwidth(speed) + (delay.empty() ? "" : ", " + delay);
}

Picture::Kind Picture::describe(int node) const {
  Kind kind = {{node}, {}};
  kind.devices.resize(cluster.types.size());
  const ClusterNode &it = cluster.nodes[node];
  for (int rank = it.firstRank; rank < it.firstRank + it.numRanks; ++rank)
    ++kind.devices[cluster.ranks[rank].type].first;
  for (size_t type = 0; type < kind.devices.size(); ++type)
    if (auto used = input.used.find({node, static_cast<int>(type)});
        used != input.used.end())
      kind.devices[type].second = used->second;
  return kind;
}

bool Picture::areAlike(int node, const Kind &kind,
                       const Kind &description) const {
  int first = kind.nodes.front();
  if (kind.devices != description.devices ||
      !areEqual(cluster.findLink(node, node), cluster.findLink(first, first)) ||
      !areEqual(cluster.findLink(node, first), cluster.findLink(first, node)))
    return false;
  // All that are alike are linked alike, too.
  if (kind.nodes.size() > 1 &&
      !areEqual(cluster.findLink(node, first),
                cluster.findLink(first, kind.nodes[1])))
    return false;
  for (int other = 0; other < static_cast<int>(cluster.nodes.size()); ++other)
    if (other != node && other != first &&
        (!areEqual(cluster.findLink(node, other),
                   cluster.findLink(first, other)) ||
         !areEqual(cluster.findLink(other, node),
                   cluster.findLink(other, first))))
      return false;
  return true;
}

void Picture::findKinds() {
  for (int node = 0; node < static_cast<int>(cluster.nodes.size()); ++node) {
    if (cluster.nodes[node].numRanks == 0)
      continue;
    Kind description = describe(node);
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Kind &it) {
      return areAlike(node, it, description);
    });
    if (kind == kinds.end())
      kinds.push_back(std::move(description));
    else
      kind->nodes.push_back(node);
  }
}

std::string Picture::nameKind(const Kind &kind) const {
  const std::string &first = cluster.nodes[kind.nodes.front()].name;
  if (kind.nodes.size() == 1)
    return first;
  return first + " … " + cluster.nodes[kind.nodes.back()].name;
}

std::string Picture::drawText(double x, double y, const std::string &text,
                              const char *what) const {
  return "<text class=\"" + std::string(what) + "\" x=\"" + formatNumber(x) +
         "\" y=\"" + formatNumber(y) + "\">" + escapeHTML(text) + "</text>";
}

Picture::Box Picture::drawBox(const Kind &kind) const {
  double y = padding + 13;
  std::string text = drawText(padding, y, nameKind(kind), "name");
  if (kind.nodes.size() > 1)
    text += drawText(boxWidth - padding, y,
                     formatCount(int64_t(kind.nodes.size()), "node"), "end");
  y += 10;
  for (size_t type = 0; type < kind.devices.size(); ++type) {
    auto [count, used] = kind.devices[type];
    if (count == 0)
      continue;
    int shown = static_cast<int>(std::min<int64_t>(count, mostSquares));
    // With many devices, the part that is used is shown.
    int64_t full = (used * shown + count - 1) / count;
    for (int i = 0; i < shown; ++i)
      text += "<rect class=\"" +
              (i < full ? getTypeColor(type) : std::string("idle")) +
              "\" x=\"" +
              formatNumber(padding + i % squaresPerRow * (square + gap)) +
              "\" y=\"" + formatNumber(y + i / squaresPerRow * (square + gap)) +
              "\" width=\"18\" height=\"18\" rx=\"4\" />";
    y += (shown + squaresPerRow - 1) / squaresPerRow * (square + gap) + 10;
    std::string label =
        std::to_string(count) + " × " + cluster.types[type].name;
    if (used < count)
      label += used == 0 ? ", left out"
                         : ", " + std::to_string(count - used) + " left out";
    text += drawText(padding, y, label, "label");
    y += lineHeight - 6;
  }
  auto addLink = [&](const char *what, const Speed &speed) {
    if (!speed)
      return;
    y += 6;
    text += drawText(padding, y, what + formatSpeed(*speed), "soft");
    y += lineHeight - 6;
  };
  int first = kind.nodes.front();
  if (cluster.nodes[first].numRanks > 1)
    addLink("inside: ", cluster.findLink(first, first));
  if (kind.nodes.size() > 1 && kinds.size() > 1 && !hasOneSpeed())
    addLink("between them: ", cluster.findLink(first, kind.nodes[1]));
  y += padding - 12;
  std::string frame;
  for (int shift = kind.nodes.size() > 1 ? 6 : 0; shift >= 0; shift -= 3)
    frame += "<rect class=\"node\" x=\"" + std::to_string(shift) + "\" y=\"" +
             std::to_string(shift) + "\" width=\"222\" height=\"" +
             formatNumber(y) + "\" rx=\"8\" />";
  return {frame + text + "\n", y};
}

Picture::Speed Picture::getSpeed(size_t from, size_t to) const {
  const std::vector<int> &nodes = kinds[from].nodes;
  if (from != to)
    return cluster.findLink(nodes[0], kinds[to].nodes[0]);
  return nodes.size() > 1 ? cluster.findLink(nodes[0], nodes[1]) : Speed();
}

/// All links between nodes are alike.
bool Picture::hasOneSpeed() const {
  Speed speed;
  for (size_t from = 0; from < kinds.size(); ++from)
    for (size_t to = 0; to < kinds.size(); ++to) {
      Speed other = getSpeed(from, to);
      if (!other)
        continue;
      if (speed && !areEqual(speed, other))
        return false;
      speed = other;
    }
  return true;
}

std::string Picture::drawBrackets(const std::vector<Box> &boxes) const {
  std::vector<double> tops;
  double height = 1;
  for (const Box &box : boxes) {
    tops.push_back(height);
    height += box.height + margin + 8;
  }
  std::string svg;
  for (size_t i = 0; i < boxes.size(); ++i)
    svg += "<g transform=\"translate(1 " + formatNumber(tops[i]) + ")\">" +
           boxes[i].svg + "</g>\n";
  auto middle = [&](size_t i) { return tops[i] + boxes[i].height / 2; };
  double left = boxWidth + 8, width = boxWidth + 12;
  auto addLink = [&](size_t first, size_t last, double x, double y,
                     const std::vector<std::string> &lines) {
    svg += "<path class=\"link\" d=\"M" + formatNumber(left) + " " +
           formatNumber(middle(first) + (first == last ? -10 : 8)) + "H" +
           formatNumber(x) + "V" +
           formatNumber(middle(last) + (first == last ? 10 : -8)) + "H" +
           formatNumber(left) + "\" />";
    y -= 7.5 * static_cast<double>(lines.size()) - 12;
    for (const std::string &line : lines) {
      svg += drawText(x + 7, y, line, "label");
      y += 15;
    }
    svg += "\n";
  };
  Speed any = getSpeed(0, kinds.size() > 1 ? 1 : 0);
  if (any && hasOneSpeed()) {
    std::vector<std::string> lines = {formatBandwidth(*any)};
    if (std::string delay = formatDelay(*any); !delay.empty())
      lines.push_back(delay);
    lines.push_back(kinds.size() > 2 || kinds[0].nodes.size() > 1
                        ? "between nodes"
                        : "between them");
    double y = (middle(0) + middle(kinds.size() - 1)) / 2;
    for (size_t i = 0; i + 1 < kinds.size(); ++i)
      addLink(i, i + 1, left + 18, y,
              i == 0 ? lines : std::vector<std::string>());
    if (kinds.size() == 1)
      addLink(0, 0, left + 18, y, lines);
    width += busWidth;
  } else {
    for (size_t first = 0; first < kinds.size(); ++first)
      for (size_t last = first + 1; last < kinds.size(); ++last) {
        Speed down = getSpeed(first, last), up = getSpeed(last, first);
        std::vector<std::string> lines;
        if (areEqual(down, up) && down) {
          lines.push_back(formatBandwidth(*down));
        } else {
          if (down)
            lines.push_back("↓ " + formatBandwidth(*down));
          if (up)
            lines.push_back("↑ " + formatBandwidth(*up));
        }
        if (down && !formatDelay(*down).empty())
          lines.push_back(formatDelay(*down));
        if (lines.empty())
          continue;
        double x =
            left + 14 + static_cast<double>(last - first - 1) * laneWidth;
        addLink(first, last, x, (middle(first) + middle(last)) / 2, lines);
        width = std::max(width, x + laneWidth);
      }
  }
  // On a phone it is moved, not made smaller.
  return "<div class=\"wide\"><svg class=\"cluster\" viewBox=\"0 0 " +
         formatNumber(width) + " " + formatNumber(height) +
         "\" style=\"width:" + formatNumber(width) +
         "px\" role=\"img\" aria-label=\"The cluster\">\n" + svg +
         "</svg></div>\n";
}

/// Kinds in a row that wraps, and a table of the links between them, the faster
/// the darker.
std::string Picture::drawTable(const std::vector<Box> &boxes) const {
  std::string html = "<div class=\"nodes\">\n";
  size_t count = std::min(kinds.size(), mostInTable);
  for (size_t i = 0; i < count; ++i)
    html += "<svg class=\"cluster\" viewBox=\"-1 -1 230 " +
            formatNumber(boxes[i].height + 9) +
            "\" style=\"width:230px\" role=\"img\" aria-label=\"" +
            escapeHTML(nameKind(kinds[i])) + "\">" + boxes[i].svg + "</svg>\n";
  html += "</div>\n";
  if (count < kinds.size())
    html += "<p class=\"note\">" + std::to_string(kinds.size() - count) +
            " more kinds of nodes are not drawn.</p>\n";
  if (hasOneSpeed()) {
    Speed any = getSpeed(0, 1);
    return html + (any ? "<p>Between nodes: " + formatSpeed(*any) + ".</p>\n"
                       : std::string());
  }
  double low = HUGE_VAL, high = 0;
  for (size_t from = 0; from < count; ++from)
    for (size_t to = 0; to < count; ++to)
      if (Speed speed = getSpeed(from, to)) {
        low = std::min(low, speed->bandwidth);
        high = std::max(high, speed->bandwidth);
      }
  html += "<div class=\"wide\"><table class=\"links\"><thead><tr><th>from, "
          "to</th>";
  for (size_t to = 0; to < count; ++to)
    html += "<th>" + escapeHTML(nameKind(kinds[to])) + "</th>";
  html += "</tr></thead><tbody>\n";
  for (size_t from = 0; from < count; ++from) {
    html += "<tr><td>" + escapeHTML(nameKind(kinds[from])) + "</td>";
    for (size_t to = 0; to < count; ++to) {
      Speed speed = getSpeed(from, to);
      if (!speed) {
        html += "<td></td>";
        continue;
      }
      double shade =
          high > low ? std::log(speed->bandwidth / low) / std::log(high / low)
                     : 0;
      std::string delay = formatDelay(*speed);
      html += "<td class=\"heat\" style=\"--heat:" +
              formatNumber(8 + 47 * shade, 3) + "%\">" +
              formatBandwidth(*speed) +
              (delay.empty() ? "" : "<br />" + delay) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string Picture::draw() {
  findKinds();
  if (kinds.empty())
    return "";
  std::vector<Box> boxes;
  for (const Kind &kind : kinds)
    boxes.push_back(drawBox(kind));
  return kinds.size() <= mostInBrackets || (kinds.size() <= 8 && hasOneSpeed())
             ? drawBrackets(boxes)
             : drawTable(boxes);
}

std::string poplar::drawCluster(const ReportInput &input) {
  return Picture(input).draw();
}

/// The rate of the format that a type computes in, if it is known.
static std::string formatFlops(const DeviceType &type) {
  auto rate = type.flops.find(type.getWorkingFormat());
  return rate == type.flops.end() ? "-"
                                  : formatScaled(rate->second, "G") + "FLOP/s";
}

std::string poplar::formatClusterSection(const ReportInput &input) {
  const ClusterView &cluster = input.cluster;
  std::string picture = drawCluster(input);
  if (picture.empty())
    return "";
  std::vector<int> counts = cluster.countRanks();
  std::vector<int64_t> used(counts.size());
  for (const auto &[place, count] : input.used)
    used[place.second] += count;
  Table table(
      {"device type", "devices", "in the job", "memory", "format", "peak"});
  for (size_t type = 0; type < counts.size(); ++type) {
    if (counts[type] == 0)
      continue;
    const DeviceType &it = cluster.types[type];
    table.row(it.name, getTypeColor(type));
    table.number(int64_t(counts[type]));
    table.number(used[type]);
    table.html(formatGiB(static_cast<double>(it.memory)));
    table.cell(toString(it.precision));
    table.html(formatFlops(it));
  }
  return picture + "<div>" + table.finish();
}
