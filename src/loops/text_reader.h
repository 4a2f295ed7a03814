// Reads the texts that text_writer.h writes. Statements are lines, words are separated by blanks, and an index
// expression is everything between [ and ]. An error is a UserError that names the line.
#pragma once

#include <map>

#include "base/text_cursor.h"
#include "loops/kernel.h"

namespace vesta::loops {

class TextReader : TextCursor {
 protected:
  TextReader(std::string_view text, std::shared_ptr<ExprContext> context)
      : TextCursor(text, " \t\r", '#'), context_(std::move(context)) {}
  ~TextReader() = default;

  // Reads a text that begins with the word `first`. All other lines are statements.
  void read(std::string_view first);
  virtual void statement(std::string_view head) = 0;
  // Appends an instruction and returns its number.
  virtual Ref add(Instr i) = 0;

  [[noreturn]] void fail(std::string_view what) const;
  std::string_view word();
  using TextCursor::accept;
  // Reads this word and the blank after it.
  void expect(std::string_view word);
  bool at_end_of_line();
  int64_t integer(std::string_view w);
  int numbered(char prefix);  // "b7": 7
  Expr index();               // "[...]"
  Expr number_or_index();     // "7" or "[...]"
  Expr rest_expr();           // the rest of the line
  Ref value();
  Expr size();    // the rest of a size's line
  Range range();  // the rest of a range's line
  bool writes();  // "read" or "write"
  void instr(std::string_view head);

  const std::shared_ptr<ExprContext> context_;

 private:
  std::string_view rest_of_line() const;
  Ref mask();
  void element(Instr& i);
  void operation(std::string_view head, Instr& i);

  std::map<std::string, Ref> values_;
};

}  // namespace vesta::loops
