/// The name of a file with a key, for a message.
enum KeyFile {
  /// The name, or what stands for it: who gives the key itself where its file should be named must not find it in
  /// the log. Keys begin with dashes or letters, and have lines.
  static func shown(_ name: some StringProtocol) -> String {
    let isPath = ["/", "./", "../"].contains { name.hasPrefix($0) } && !name.contains(where: \.isNewline)
    return isPath ? String(name) : "the file that it should name, best with its whole path"
  }
}
