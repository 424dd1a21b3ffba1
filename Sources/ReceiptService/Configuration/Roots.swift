import AppStore
import FoundationEssentials

extension TrustedRoots {
  /// Apple's root as this project ships it.
  static let shippedFileName = "AppleRootCA-G3.cer"

  /// The roots that the settings name, or the shipped one: in `config/` of the working directory, or
  /// beside the configuration file.
  /// - Throws: a problem with `APP_STORE_ROOTS`, also if the shipped root is not Apple's any more.
  init(_ settings: Settings) throws(ConfigurationProblem) {
    guard settings.rootFiles.isEmpty else {
      try self.init(paths: settings.rootFiles)
      return
    }
    let candidates = Self.shippedFiles(settings)
    guard let file = candidates.first(where: { FileManager.default.isReadableFile(atPath: $0) }) else {
      throw ConfigurationProblem(
        "APP_STORE_ROOTS", "is not set, and there is no \(candidates.joined(separator: " or "))")
    }
    try self.init(paths: [file])
    guard fingerprints == [Self.appleRootG3Fingerprint] else {
      throw ConfigurationProblem(
        "APP_STORE_ROOTS", "is not set, and \(file) is not Apple Root CA - G3: its fingerprint differs")
    }
  }

  /// Where the shipped root may be.
  fileprivate static func shippedFiles(_ settings: Settings) -> [String] {
    let beside = URL(filePath: settings.configurationFile).deletingLastPathComponent()
      .appending(path: shippedFileName).path(percentEncoded: false)
    return ["config/" + shippedFileName, beside]
  }

  private init(paths: [String]) throws(ConfigurationProblem) {
    var files: [[UInt8]] = []
    for path in paths {
      guard let data = try? Data(contentsOf: URL(filePath: path)) else {
        throw ConfigurationProblem("APP_STORE_ROOTS", "cannot read \(path)")
      }
      files.append(Array(data))
    }
    do throws(TrustedRoots.ReadingFailure) {
      try self.init(files: files)
    } catch {
      switch error {
      case .notCertificates(let reason): throw ConfigurationProblem("APP_STORE_ROOTS", reason)
      }
    }
  }
}

extension Settings {
  /// The files that are read again on a reload: the apps and the roots.
  public var reloadableFiles: [String] {
    [configurationFile] + (rootFiles.isEmpty ? TrustedRoots.shippedFiles(self) : rootFiles)
  }
}
