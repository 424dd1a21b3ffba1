/// Shows the name of a key file in an error message.
enum KeyFile {
  /// The name, if it is a path. Otherwise the setting may contain the key itself, which must not reach the log.
  static func shown(_ name: some StringProtocol) -> String {
    let isPath = ["/", "./", "../"].contains { name.hasPrefix($0) } && !name.contains(where: \.isNewline)
    return isPath ? String(name) : "the file that it should name; give an absolute path"
  }
}
