#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Numbers and names as people read them, and as HTML and SVG carry them.
namespace monkeytree {

/// Text for HTML and SVG, in an element or an attribute. What is not UTF-8 or not allowed in XML
/// becomes U+FFFD.
std::string escape(std::string_view text);

/// "1234.50": `decimals` after the point; "–" for what is no finite number. Never "-0.00".
/// From 10¹⁵ on a power of ten, here and in grouped_text().
std::string fixed_text(double value, int decimals);

/// fixed_text() with thin spaces between groups of three digits, from five digits on.
std::string grouped_text(double value, int decimals);

/// Some significant digits (1 to 15), groups parted, powers of ten where it would be long:
/// "1.042", "12 340", "3.2×10⁹", "–".
std::string short_text(double value, int digits = 4);

/// Decimals that show about four significant digits of a value, 0 to 9.
int decimals_for(double value);

/// "10³", "10⁻⁶".
std::string power_of_ten(int exponent);

/// A place in a picture: at most two decimals, no trailing zeros.
std::string coordinate(double value);

/// Places that a text takes on a terminal: wide characters two, marks that combine none.
size_t columns_of(std::string_view text);

/// About the width in pixels at a font size, rather too wide than too narrow.
double text_width(std::string_view text, double size);

/// The text; where it is wider than `width` pixels, its beginning and its end with "…" between, as
/// it is the end that tells "rack-17" from "rack-18".
std::string shorten(std::string_view text, double width, double size);

/// Counts with their noun: "1 move", "3 moves".
std::string count_text(size_t count, std::string_view noun);

}  // namespace monkeytree
