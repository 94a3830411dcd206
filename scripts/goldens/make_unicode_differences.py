#!/usr/bin/env python3
# ===- make_unicode_differences.py - Where tokenizers' Unicode differs -----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
#
# The parts of PyPI's `tokenizers` were made from four versions of Unicode, and
# utf8proc and PCRE2 have two others. This script asks `tokenizers` and utf8proc
# about every code point and writes runtime/tokenizer/UnicodeDifferences.inc:
#
#   make_unicode_differences.py > runtime/tokenizer/UnicodeDifferences.inc
#
# It needs Python 3.11, whose unicodedata is that of PCRE2 10.42 (Unicode 14),
# libutf8proc 2.8 and the packages of requirements.txt.
#
# ===-----------------------------------------------------------------------===#
import ctypes
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

assert unicodedata.unidata_version == "14.0.0", "this needs Python 3.11"
proc = ctypes.CDLL("libutf8proc.so.2")
proc.utf8proc_category_string.restype = ctypes.c_char_p
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORY = {c: proc.utf8proc_category_string(c).decode() for c in POINTS}


def ranges(points):
    result = []
    for c in sorted(points):
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def emit(name, points):
    print(f"// {len(points)} code points.")
    print(f"static constexpr Range {name}[] = {{")
    for first, last in ranges(points):
        print(f"    {{0x{first:X}, 0x{last:X}}},")
    print("    {1, 0}};\n")


def differences(name, theirs, ours):
    emit(name, [c for c in POINTS if theirs(chr(c)) != ours(c)])


print("// Made by scripts/goldens/make_unicode_differences.py. Where the answer of")
print("// PyPI's tokenizers about a code point is not that of utf8proc 2.8.")
print("// clang-format off\n")

bert = normalizers.BertNormalizer
clean = bert(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
differences(
    "ControlDifferences",
    lambda s: clean.normalize_str("a" + s + "b") == "ab",
    lambda c: c not in (9, 10, 13) and (c == 0xFFFD or CATEGORY[c] in ("Cc", "Cf", "Co", "Cs")),
)
words = pre_tokenizers.BertPreTokenizer()
differences(
    "PunctuationDifferences",
    lambda s: len(words.pre_tokenize_str("a" + s + "b")) == 3,
    lambda c: CATEGORY[c][0] == "P" or (c < 128 and unicodedata.category(chr(c))[0] == "S"),
)
accents = bert(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
differences(
    "NonspacingDifferences",
    lambda s: accents.normalize_str("a" + s) == "a",
    lambda c: CATEGORY[c] == "Mn",
)
marks = normalizers.StripAccents()
differences(
    "MarkDifferences",
    lambda s: marks.normalize_str("a" + s) == "a",
    lambda c: CATEGORY[c][0] == "M",
)
digits = pre_tokenizers.Digits(individual_digits=True)
differences(
    "NumericDifferences",
    lambda s: len(digits.pre_tokenize_str("a" + s + "b")) == 3,
    lambda c: CATEGORY[c][0] == "N",
)
whole = pre_tokenizers.Whitespace()
OTHER_WORDS = [(0x200C, 0x200D), (0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189)]
differences(
    "WordDifferences",
    lambda s: len(whole.pre_tokenize_str("a" + s + "b")) == 1,
    lambda c: CATEGORY[c][0] in "LM"
    or CATEGORY[c] in ("Nd", "Nl", "Pc")
    or any(first <= c <= last for first, last in OTHER_WORDS),
)

# Normalisation: code points that tokenizers' older tables do not know, which
# therefore are starters without any decomposition.
forms = [normalizers.NFD(), normalizers.NFC(), normalizers.NFKD(), normalizers.NFKC()]
OPTIONS = [2 | 16, 2 | 8, 2 | 16 | 4, 2 | 8 | 4]  # STABLE, DECOMPOSE or COMPOSE, COMPAT


def normalize(text, options):
    data = text.encode()
    out = ctypes.POINTER(ctypes.c_char)()
    size = proc.utf8proc_map(data, ctypes.c_ssize_t(len(data)), ctypes.byref(out), options)
    result = ctypes.string_at(out, size)
    libc.free(out)
    return result.decode()


libc = ctypes.CDLL("libc.so.6")
proc.utf8proc_map.restype = ctypes.c_ssize_t
unknown = set()
for c in POINTS:
    if c == 0:
        continue
    for form, options in zip(forms, OPTIONS):
        for text in (chr(c), chr(c) + "\u0334", "\u0345" + chr(c)):
            if form.normalize_str(text) != normalize(text, options):
                unknown.add(c)
for c in unknown:
    for form in forms:
        for text in (chr(c), chr(c) + "\u0334", "\u0345" + chr(c)):
            if form.normalize_str(text) != text:
                print(f"// Not only unknown: {c:X} {form} {text!r}", file=sys.stderr)
emit("NormalizationDifferences", unknown)

lower = normalizers.Lowercase()
print("static constexpr Lowercase LowercaseDifferences[] = {")
proc.utf8proc_tolower.restype = ctypes.c_int32
for c in POINTS:
    theirs = lower.normalize_str(chr(c))
    if theirs != chr(proc.utf8proc_tolower(c)):
        text = "".join(f"\\x{byte:02x}" for byte in theirs.encode())
        print(f'    {{0x{c:X}, "{text}"}},')
print('    {0, ""}};\n')

# Oniguruma has Unicode 16.
print("// What Unicode 16 adds to the general categories of Unicode 14.")
print("static constexpr CategoryRange NewCategories[] = {")
total = 0
for category in "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split():
    split = pre_tokenizers.Split(Regex(r"\p{" + category + "}"), "removed")
    theirs = {c for c in POINTS if not split.pre_tokenize_str(chr(c))}
    ours = {c for c in POINTS if unicodedata.category(chr(c)) == category}
    if ours - theirs:
        print(f"gone from {category}: {[hex(c) for c in sorted(ours - theirs)]}", file=sys.stderr)
    for first, last in ranges(theirs - ours):
        print(f'    {{"{category}", 0x{first:X}, 0x{last:X}}},')
print('    {"", 1, 0}};')
