// atlas/blocks/form.h: how a kind of block describes itself: its fields and its bodies.
//
// Text, binary form, verifier and walks run over these descriptions. What has no place in them (the
// stages of a loop, a product's tail) is a case of its own there.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "atlas/body.h"
#include "atlas/limits.h"

namespace hologram::atlas {

/// A field of a block: in text a word and its value on the block's first line, in the order of the
/// table; a flag is its word alone, left out where it is false. A double stands as its bits.
template <class B>
struct Field {
  std::string_view word;
  std::variant<int B::*, bool B::*, DType B::*, double B::*> member;
  uint64_t limit = 0;     ///< the largest number that text may have
  char letter = 0;        ///< of a number that names an axis, 'i', or a buffer, 'b'; -1: none
  bool optional = false;  ///< a number that text leaves out where it has its default
  size_t joined = 0;      ///< so many fields behind an optional one come and go with it
  int added = 0;          ///< the binary form has fields in ascending order of this,
  bool leads = false;     ///< these in front of the axes, the others behind them
};

/// What a body may refer to and what it gives, in one block.
struct BodyRole {
  std::vector<int> axes;                 ///< that it sees, counted behind the batch's
  std::optional<DType> value = {};       ///< type of its value; none: it stores
  std::vector<DType> accumulators = {};  ///< that it may read
  bool optional = false;                 ///< may be empty though it has a value
  bool unread = false;                   ///< stands in for nothing in this block
};

/// A body of a block: in text its name on a line, and its instructions.
template <class B>
struct BodyField {
  std::string_view name;
  Body B::*body;
  BodyRole (*role)(const B&);
  bool B::*when = nullptr;  ///< flag without which there is no such body
  bool optional = false;    ///< text leaves it out where it is empty
  int added = 0;            ///< as Field::added
};

class Verifier;

/// The description of a kind: `name`, `fields`, `bodies`, and `own_axes(block)`, how many axes
/// stand behind those of the batch. Beside it stands verify_block(block, verifier): what the kind
/// asks for beyond known types, that number of axes and sound bodies; called before bodies are
/// looked at. Block is the table of kinds (atlas/program.h).
template <class B>
struct Form;

/// Calls f with rows (of fields or bodies) in the order of the binary form.
template <class Rows, class F>
void in_binary_order(const Rows& rows, F&& f) {
  int newest = 0;
  for (const auto& row : rows) newest = std::max(newest, row.added);
  for (int age = 0; age <= newest; ++age)
    for (const auto& row : rows)
      if (row.added == age) f(row);
}

/// Calls f with the field's value in `block`, const or not.
template <class B, class F>
void with_value(const Field<std::remove_const_t<B>>& field, B& block, F&& f) {
  std::visit([&](auto member) { f(block.*member); }, field.member);
}

/// Calls f(body) for the bodies of `block`, absent ones too, in the order of the text.
template <class B, class F>
void for_each_block_body(B& block, F&& f) {
  for (const auto& row : Form<std::remove_const_t<B>>::bodies) f(block.*row.body);
}

}  // namespace hologram::atlas
