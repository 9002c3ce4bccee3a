// SPDX-License-Identifier: Apache-2.0
#include "ui/imgui/raster.h"

#include <imgui.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <thread>

namespace spscope::ui {
namespace {

constexpr int kTileWidth = 256, kTileHeight = 64;
constexpr std::size_t kWorthThreads = 24;  // tiles to paint

/// What one or two triangles are, clipped. There are a hundred thousand in a frame: small.
struct Piece {
  enum Kind : std::uint32_t { kSolid, kGlyph, kTriangle };
  int x0, y0, x1, y1;            ///< pixels that may be touched
  std::uint32_t colour;          ///< ImGui's: ABGR
  Kind kind : 2;
  std::uint32_t corners : 30;    ///< not kSolid: index of the first into State::corners
};

std::uint32_t opaque(std::uint32_t abgr) { return 0xff000000u | (abgr & 0xff) << 16 | (abgr & 0xff00) | (abgr >> 16 & 0xff); }

/// x over y by a of 255, two channels at once.
inline void blend(std::uint32_t& pixel, std::uint32_t rgb, unsigned a) {
  const unsigned b = 255 - a;
  std::uint32_t odd = (rgb & 0xff00ff) * a + (pixel & 0xff00ff) * b + 0x800080;
  std::uint32_t even = (rgb >> 8 & 0xff) * a + (pixel >> 8 & 0xff) * b + 0x80;
  odd = (odd + (odd >> 8 & 0xff00ff)) >> 8 & 0xff00ff;
  even = (even + (even >> 8)) & 0xff00;
  pixel = 0xff000000u | odd | even;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9fb21c651e98df25;
  return hash ^ hash >> 29;
}
std::uint64_t bits(float a, float b) {
  std::uint32_t x, y;
  std::memcpy(&x, &a, 4), std::memcpy(&y, &b, 4);
  return static_cast<std::uint64_t>(x) << 32 | y;
}

/// Pixels [at, at + count) of one colour. Most events are a few pixels wide, most backgrounds hundreds.
inline void fillRun(std::uint32_t* at, int count, std::uint32_t colour) {
  using Four [[gnu::vector_size(16), gnu::aligned(4), gnu::may_alias]] = std::uint32_t;
  if (count < 4) {
    for (int i = 0; i < count; ++i) at[i] = colour;
    return;
  }
  const Four four{colour, colour, colour, colour};
  int i = 0;
  for (; i + 16 <= count; i += 16)
    for (int k = 0; k < 16; k += 4) *reinterpret_cast<Four*>(at + i + k) = four;
  for (; i + 4 <= count; i += 4) *reinterpret_cast<Four*>(at + i) = four;
  *reinterpret_cast<Four*>(at + count - 4) = four;
}

/// A few threads that wait for work; the caller works, too.
class Workers {
 public:
  explicit Workers(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
  }
  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  void run(const std::function<void(std::size_t)>& work, std::size_t count) {
    {
      const std::lock_guard lock(mutex_);
      work_ = &work, count_ = count, next_ = 0, left_ = threads_.size(), ++round_;
    }
    wake_.notify_all();
    take(work, count);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return left_ == 0; });
  }

 private:
  void take(const std::function<void(std::size_t)>& work, std::size_t count) {
    for (std::size_t i = next_++; i < count; i = next_++) work(i);
  }
  void loop() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      const auto* work = work_;
      const std::size_t count = count_;
      lock.unlock();
      take(*work, count);
      lock.lock();
      if (--left_ == 0) done_.notify_one();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::size_t count_ = 0, left_ = 0;
  std::atomic<std::size_t> next_{0};
  std::uint64_t round_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

struct Raster::State {
  const unsigned char* atlas = nullptr;
  int atlas_width = 0, atlas_height = 0;
  int width = 0, height = 0;
  std::uint32_t background = 0;
  std::vector<Piece> pieces;
  std::vector<const ImDrawVert*> corners;  ///< of a glyph top left and bottom right, of a triangle all
  std::vector<std::vector<std::uint32_t>> tiles;  ///< pieces of each, in order
  std::vector<std::uint64_t> hash, before;
  std::unique_ptr<Workers> workers;
  std::uint32_t* pixels = nullptr;
  int stride = 0;

  void collect(const ImDrawData& data);
  void add(Piece piece, std::initializer_list<const ImDrawVert*> at = {});
  void paintTile(std::size_t tile) const;
  void glyph(const Piece& piece, int x0, int y0, int x1, int y1) const;
  void triangle(const Piece& piece, int x0, int y0, int x1, int y1) const;
  int columns() const { return (width + kTileWidth - 1) / kTileWidth; }
  int rows() const { return (height + kTileHeight - 1) / kTileHeight; }
};

Raster::Raster() : state_(std::make_unique<State>()) {}
Raster::~Raster() = default;

void Raster::setAtlas(const unsigned char* alpha, int width, int height) {
  state_->atlas = alpha, state_->atlas_width = width, state_->atlas_height = height;
  state_->before.clear();
}

void Raster::State::add(Piece piece, std::initializer_list<const ImDrawVert*> at) {
  if (piece.x0 >= piece.x1 || piece.y0 >= piece.y1 || piece.colour >> 24 == 0) return;
  const auto id = static_cast<std::uint32_t>(pieces.size());
  piece.corners = static_cast<std::uint32_t>(corners.size()) & 0x3fffffff;
  corners.insert(corners.end(), at.begin(), at.end());
  pieces.push_back(piece);
  std::uint64_t h = mix(piece.colour, static_cast<std::uint64_t>(piece.kind));
  h = mix(h, static_cast<std::uint64_t>(static_cast<std::uint32_t>(piece.x0)) << 32 | static_cast<std::uint32_t>(piece.x1));
  h = mix(h, static_cast<std::uint64_t>(static_cast<std::uint32_t>(piece.y0)) << 32 | static_cast<std::uint32_t>(piece.y1));
  for (const ImDrawVert* v : at) h = mix(mix(mix(h, bits(v->pos.x, v->pos.y)), bits(v->uv.x, v->uv.y)), v->col);
  for (int row = piece.y0 / kTileHeight; row <= (piece.y1 - 1) / kTileHeight; ++row) {
    for (int column = piece.x0 / kTileWidth; column <= (piece.x1 - 1) / kTileWidth; ++column) {
      const auto tile = static_cast<std::size_t>(row * columns() + column);
      // What lies under an opaque piece that fills the tile is never seen.
      if (piece.kind == Piece::kSolid && piece.colour >> 24 == 255 && piece.x0 <= column * kTileWidth && piece.y0 <= row * kTileHeight &&
          piece.x1 >= std::min(width, (column + 1) * kTileWidth) && piece.y1 >= std::min(height, (row + 1) * kTileHeight))
        tiles[tile].clear(), hash[tile] = background;
      tiles[tile].push_back(id);
      hash[tile] = mix(hash[tile], h);
    }
  }
}

void Raster::State::collect(const ImDrawData& data) {
  pieces.clear(), corners.clear();
  tiles.resize(static_cast<std::size_t>(columns() * rows()));
  for (auto& tile : tiles) tile.clear();
  hash.assign(tiles.size(), background);
  for (int n = 0; n < data.CmdListsCount; ++n) {
    const ImDrawList& list = *data.CmdLists[n];
    for (const ImDrawCmd& cmd : list.CmdBuffer) {
      if (cmd.UserCallback) continue;
      const int cx0 = std::max(0, static_cast<int>(cmd.ClipRect.x)), cy0 = std::max(0, static_cast<int>(cmd.ClipRect.y));
      const int cx1 = std::min(width, static_cast<int>(std::ceil(cmd.ClipRect.z))), cy1 = std::min(height, static_cast<int>(std::ceil(cmd.ClipRect.w)));
      if (cx0 >= cx1 || cy0 >= cy1) continue;
      const ImDrawIdx* index = list.IdxBuffer.Data + cmd.IdxOffset;
      const ImDrawVert* vertices = list.VtxBuffer.Data + cmd.VtxOffset;
      for (unsigned i = 0; i + 2 < cmd.ElemCount; i += 3) {
        const ImDrawVert &a = vertices[index[i]], &b = vertices[index[i + 1]], &c = vertices[index[i + 2]];
        // An upright quad of one colour: (0,1,2)(0,2,3), as ImGui makes them.
        if (i + 5 < cmd.ElemCount && index[i] == index[i + 3] && index[i + 2] == index[i + 4]) {
          const ImDrawVert& d = vertices[index[i + 5]];
          if (a.pos.y == b.pos.y && b.pos.x == c.pos.x && c.pos.y == d.pos.y && d.pos.x == a.pos.x && a.col == b.col && a.col == c.col && a.col == d.col && a.pos.x <= c.pos.x && a.pos.y <= c.pos.y) {
            const bool glyph = a.uv.x != c.uv.x || a.uv.y != c.uv.y;
            const auto whole = [](float v) { return static_cast<int>(v + 0.5f); };  // what is below 0 is clipped
            const int x0 = std::max(cx0, whole(a.pos.x)), y0 = std::max(cy0, whole(a.pos.y)), x1 = std::min(cx1, whole(c.pos.x)), y1 = std::min(cy1, whole(c.pos.y));
            if (glyph) add({x0, y0, x1, y1, a.col, Piece::kGlyph, 0}, {&a, &c});
            else add({x0, y0, x1, y1, a.col, Piece::kSolid, 0});
            i += 3;
            continue;
          }
        }
        add({std::max(cx0, static_cast<int>(std::floor(std::min({a.pos.x, b.pos.x, c.pos.x})))), std::max(cy0, static_cast<int>(std::floor(std::min({a.pos.y, b.pos.y, c.pos.y})))),
             std::min(cx1, static_cast<int>(std::ceil(std::max({a.pos.x, b.pos.x, c.pos.x})))), std::min(cy1, static_cast<int>(std::ceil(std::max({a.pos.y, b.pos.y, c.pos.y})))), a.col | b.col | c.col, Piece::kTriangle, 0}, {&a, &b, &c});
      }
    }
  }
}

void Raster::State::glyph(const Piece& piece, int x0, int y0, int x1, int y1) const {
  const ImDrawVert &a = *corners[piece.corners], &c = *corners[piece.corners + 1];
  const std::uint32_t rgb = opaque(piece.colour);
  const unsigned alpha = piece.colour >> 24;
  const float du = (c.uv.x - a.uv.x) / (c.pos.x - a.pos.x) * static_cast<float>(atlas_width), dv = (c.uv.y - a.uv.y) / (c.pos.y - a.pos.y) * static_cast<float>(atlas_height);
  // Which two texels a column lies between, and how much of the second: the same in every row.
  struct Between {
    int at;
    unsigned second;  ///< of 256
  };
  std::array<Between, kTileWidth> between;
  for (int x = x0; x < x1; ++x) {
    const float u = a.uv.x * static_cast<float>(atlas_width) + (static_cast<float>(x) + 0.5f - a.pos.x) * du - 0.5f;
    const int at = std::clamp(static_cast<int>(std::floor(u)), 0, atlas_width - 2);
    between[static_cast<std::size_t>(x - x0)] = {at, static_cast<unsigned>(std::clamp(u - static_cast<float>(at), 0.0f, 1.0f) * 256 + 0.5f)};
  }
  for (int y = y0; y < y1; ++y) {
    const float v = a.uv.y * static_cast<float>(atlas_height) + (static_cast<float>(y) + 0.5f - a.pos.y) * dv;
    const unsigned char* row = atlas + std::clamp(static_cast<int>(v), 0, atlas_height - 1) * atlas_width;
    std::uint32_t* pixel = pixels + y * stride + x0;
    for (int i = 0; i < x1 - x0; ++i) {
      const auto [at, second] = between[static_cast<std::size_t>(i)];
      const unsigned covered = (row[at] * (256 - second) + row[at + 1] * second) >> 8;
      if (covered == 0) continue;
      const unsigned share = covered * alpha / 255;
      if (share == 255) pixel[i] = rgb;
      else blend(pixel[i], rgb, share);
    }
  }
}

void Raster::State::triangle(const Piece& piece, int x0, int y0, int x1, int y1) const {
  const ImDrawVert &a = *corners[piece.corners], &b = *corners[piece.corners + 1], &c = *corners[piece.corners + 2];
  const float area = (b.pos.x - a.pos.x) * (c.pos.y - a.pos.y) - (c.pos.x - a.pos.x) * (b.pos.y - a.pos.y);
  if (std::fabs(area) < 1e-6f) return;
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      const float px = static_cast<float>(x) + 0.5f, py = static_cast<float>(y) + 0.5f;
      const float wa = ((b.pos.x - px) * (c.pos.y - py) - (c.pos.x - px) * (b.pos.y - py)) / area;
      const float wb = ((c.pos.x - px) * (a.pos.y - py) - (a.pos.x - px) * (c.pos.y - py)) / area;
      const float wc = 1 - wa - wb;
      if (wa < 0 || wb < 0 || wc < 0) continue;
      const auto channel = [&](int shift) {
        return static_cast<std::uint32_t>(std::clamp(wa * static_cast<float>(a.col >> shift & 255) + wb * static_cast<float>(b.col >> shift & 255) + wc * static_cast<float>(c.col >> shift & 255), 0.0f, 255.0f));
      };
      const int u = std::clamp(static_cast<int>((wa * a.uv.x + wb * b.uv.x + wc * c.uv.x) * static_cast<float>(atlas_width)), 0, atlas_width - 1);
      const int v = std::clamp(static_cast<int>((wa * a.uv.y + wb * b.uv.y + wc * c.uv.y) * static_cast<float>(atlas_height)), 0, atlas_height - 1);
      const unsigned alpha = channel(24) * atlas[v * atlas_width + u] / 255;
      if (alpha > 0) blend(pixels[y * stride + x], channel(0) << 16 | channel(8) << 8 | channel(16), alpha);
    }
  }
}

void Raster::State::paintTile(std::size_t tile) const {
  const int left = static_cast<int>(tile) % columns() * kTileWidth, top = static_cast<int>(tile) / columns() * kTileHeight;
  const int right = std::min(width, left + kTileWidth), bottom = std::min(height, top + kTileHeight);
  const auto fill = [&](int x0, int y0, int x1, int y1, std::uint32_t colour) {
    std::uint32_t* row = pixels + y0 * stride + x0;
    for (int y = y0; y < y1; ++y, row += stride) fillRun(row, x1 - x0, colour);
  };
  // add() lets nothing stay under an opaque piece that fills the tile.
  const Piece* first = tiles[tile].empty() ? nullptr : &pieces[tiles[tile].front()];
  const bool hidden = first && first->kind == Piece::kSolid && first->colour >> 24 == 255 && first->x0 <= left && first->y0 <= top && first->x1 >= right && first->y1 >= bottom;
  if (!hidden) fill(left, top, right, bottom, background);
  for (const std::uint32_t id : tiles[tile]) {
    const Piece& p = pieces[id];
    const int x0 = std::max(left, p.x0), y0 = std::max(top, p.y0), x1 = std::min(right, p.x1), y1 = std::min(bottom, p.y1);
    if (p.kind == Piece::kGlyph) {
      glyph(p, x0, y0, x1, y1);
    } else if (p.kind == Piece::kTriangle) {
      triangle(p, x0, y0, x1, y1);
    } else if (p.colour >> 24 == 255) {
      fill(x0, y0, x1, y1, opaque(p.colour));
    } else {
      const std::uint32_t rgb = opaque(p.colour);
      for (int y = y0; y < y1; ++y)
        for (int x = x0; x < x1; ++x) blend(pixels[y * stride + x], rgb, p.colour >> 24);
    }
  }
}

std::vector<PixelBox> Raster::paint(const ImDrawData& data, std::uint32_t background, std::uint32_t* pixels, int width, int height, int stride_pixels, bool everything) {
  State& s = *state_;
  everything = everything || width != s.width || height != s.height || background != s.background || s.before.empty();
  s.width = width, s.height = height, s.background = background, s.pixels = pixels, s.stride = stride_pixels;
  s.collect(data);
  std::vector<std::size_t> dirty;
  for (std::size_t t = 0; t < s.tiles.size(); ++t)
    if (everything || s.hash[t] != s.before[t]) dirty.push_back(t);
  const std::function<void(std::size_t)> work = [&](std::size_t i) { s.paintTile(dirty[i]); };
  const unsigned threads = std::min(std::thread::hardware_concurrency(), 8u);
  if (dirty.size() < kWorthThreads || threads < 2) {
    for (std::size_t i = 0; i < dirty.size(); ++i) work(i);
  } else {
    if (!s.workers) s.workers = std::make_unique<Workers>(threads - 1);
    s.workers->run(work, dirty.size());
  }
  s.before.swap(s.hash);
  std::vector<PixelBox> out;
  for (const std::size_t t : dirty) {
    const int left = static_cast<int>(t) % s.columns() * kTileWidth, top = static_cast<int>(t) / s.columns() * kTileHeight;
    const PixelBox box{left, top, std::min(width, left + kTileWidth), std::min(height, top + kTileHeight)};
    if (!out.empty() && out.back().y0 == box.y0 && out.back().x1 == box.x0) out.back().x1 = box.x1;
    else out.push_back(box);
  }
  return out;
}

}  // namespace spscope::ui
