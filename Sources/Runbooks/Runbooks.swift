/// `docs/runbooks.md` at the time of the build, compiled in: a server shows the runbooks of its own version, without the network.
///
/// It is a module of its own, because the compiler needs seconds for such a long array.
public enum Runbooks {
  /// The section of each alert, in Markdown, by the alert's name.
  public static let sections: [String: String] = {
    let text = String(decoding: PackageResources.runbooks_md, as: UTF8.self)
    var sections: [String: String] = [:]
    var name: String?
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
      if line.hasPrefix("### ") {
        name = String(line.dropFirst(4))
      } else if line.hasPrefix("## ") {
        name = nil
      } else if let name {
        sections[name, default: ""] += line + "\n"
      }
    }
    return sections
  }()
}
