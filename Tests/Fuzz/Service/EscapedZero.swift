extension String {
  /// Whether JSON text escapes U+0000, which PostgreSQL's `jsonb` does not take. A backslash that is escaped itself may
  /// stand before the same letters, and is none.
  var escapesZero: Bool { replacing(#"\\"#, with: "").contains(#"\u0000"#) }
}
