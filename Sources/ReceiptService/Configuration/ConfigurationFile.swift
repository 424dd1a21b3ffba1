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
