import AppStore
import Foundation

extension TrustedRoots {
  /// The file name of Apple's root in `config`.
  static let shippedFileName = "AppleRootCA-G3.cer"

  /// Reads the roots of `APP_STORE_ROOTS`, or the shipped one in `config/` of the working directory or beside the
  /// configuration file.
  /// - Throws: an error that names `APP_STORE_ROOTS`, also if the shipped file is not Apple's root.
  package init(_ settings: Settings) throws(ConfigurationProblem) {
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

  /// The possible paths of the shipped root.
  fileprivate static func shippedFiles(_ settings: Settings) -> [String] {
    let beside = URL(filePath: settings.configurationFile).deletingLastPathComponent()
      .appending(path: shippedFileName).path(percentEncoded: false)
    return ["config/" + shippedFileName, beside]
  }

  private init(paths: [String]) throws(ConfigurationProblem) {
    var files: [[UInt8]] = []
    for path in paths {
      let file = Array(try ConfigurationFile.read(path, setting: "APP_STORE_ROOTS"))
      _ = try Self.certificates(of: [file], named: path)
      files.append(file)
    }
    self = try Self.certificates(of: files, named: paths.joined(separator: ":"))
  }

  private static func certificates(
    of files: [[UInt8]], named name: String
  ) throws(ConfigurationProblem) -> TrustedRoots {
    do throws(TrustedRoots.ReadingFailure) {
      return try TrustedRoots(files: files)
    } catch {
      switch error {
      case .notCertificates(let reason): throw ConfigurationProblem("APP_STORE_ROOTS", "\(name): \(reason)")
      }
    }
  }
}

extension Settings {
  /// The files that a reload reads again: the apps and the roots.
  package var reloadableFiles: [String] {
    [configurationFile] + (rootFiles.isEmpty ? TrustedRoots.shippedFiles(self) : rootFiles)
  }
}
