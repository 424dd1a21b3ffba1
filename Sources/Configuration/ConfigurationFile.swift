import Foundation

/// Reads files that settings name.
enum ConfigurationFile {
  /// - Parameters:
  ///   - setting: the setting that names the file, for errors.
  ///   - shown: the name of the file in errors.
  /// - Throws: an error that says why the file cannot be read.
  static func read(
    _ path: String, setting: String, shownAs shown: String? = nil
  ) throws(ConfigurationProblem) -> Data {
    do {
      return try Data(contentsOf: URL(filePath: path))
    } catch {
      let shown = shown ?? path
      // Without the path, a reason would say nothing.
      throw ConfigurationProblem(
        setting, "cannot read \(shown)" + (shown == path ? ": \(reason(error, path))" : ""))
    }
  }

  private static func reason(_ error: any Error, _ path: String) -> String {
    var isFolder: ObjCBool = false
    if FileManager.default.fileExists(atPath: path, isDirectory: &isFolder), isFolder.boolValue {
      return "it is a folder"
    }
    switch (error as? CocoaError)?.code {
    case .fileReadNoSuchFile: return "it does not exist"
    case .fileReadNoPermission: return "this system user has no permission"
    default: return "the system cannot open it"
    }
  }
}

/// Shows the name of a key file in an error message.
package enum KeyFile {
  /// The name, if it is a path. Otherwise the setting may contain the key itself, which must not reach the log.
  package static func shown(_ name: some StringProtocol) -> String {
    let isPath = ["/", "./", "../"].contains { name.hasPrefix($0) } && !name.contains(where: \.isNewline)
    return isPath ? String(name) : "the file that it should name; give an absolute path"
  }
}
