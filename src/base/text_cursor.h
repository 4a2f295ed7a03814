// A position in a text. The parsers of graphs, kernels, schemas and size expressions derive from it and add their
// grammar and their errors. Reading past the end gives '\0'.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>

namespace vesta {

class TextCursor {
 protected:
  // `blanks`: the characters between tokens. `comment`: starts a comment that ends with the line; '\0': none.
  explicit TextCursor(std::string_view text, std::string_view blanks = " \t\r", char comment = '\0')
      : text_(text), blanks_(blanks), comment_(comment) {}

  static constexpr bool is_word_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  // The number that is the whole text; nullopt: it is none.
  template <class T>
  static std::optional<T> number_in(std::string_view text) {
    T v{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(v) : std::nullopt;
  }

  std::string_view rest() const { return text_.substr(pos_); }
  // The next character, blank or not; '\0' at the end.
  char here() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }

  void skip_blanks() {
    pos_ = std::min(text_.find_first_not_of(blanks_, pos_), text_.size());
    if (comment_ != '\0' && here() == comment_) pos_ = std::min(text_.find('\n', pos_), text_.size());
  }

  // The following functions skip blanks first.
  bool at_end() {
    skip_blanks();
    return pos_ == text_.size();
  }
  char peek() {
    skip_blanks();
    return here();
  }
  bool accept(std::string_view token) {
    skip_blanks();
    if (!rest().starts_with(token)) return false;
    pos_ += token.size();
    return true;
  }
  // Reads the characters from here on while `belongs` is true for them.
  template <class F>
  std::string_view peek_while(F&& belongs) {
    skip_blanks();
    const std::string_view t = rest();
    return t.substr(0, static_cast<size_t>(std::find_if_not(t.begin(), t.end(), belongs) - t.begin()));
  }
  template <class F>
  std::string_view take_while(F&& belongs) {
    const std::string_view t = peek_while(belongs);
    pos_ += t.size();
    return t;
  }

  std::string_view text_;
  size_t pos_ = 0;

 private:
  std::string_view blanks_;
  char comment_;
};

}  // namespace vesta
