extension String {
  /// Whether JSON text has an escaped U+0000, which PostgreSQL's `jsonb` refuses. An escaped backslash before `u0000`
  /// does not count.
  var escapesZero: Bool { replacing(#"\\"#, with: "").contains(#"\u0000"#) }
}
