import Foundation
import FuzzSupport

@testable import AppStore

/// Data that a simulated App Store signed, in `Tests/Fuzz/Genuine`, relative to the working directory.
enum Genuine {
  static let roots: TrustedRoots = {
    guard let roots = try? TrustedRoots(files: [read("root.pem")]) else {
      fatalError("Tests/Fuzz/Genuine/root.pem")
    }
    return roots
  }()

  /// The signed payloads.
  static let payloads = Set(texts.compactMap { try? CompactJWS($0).payload })
  /// The headers of the signed payloads.
  static let headers = Set(texts.compactMap { (try? CompactJWS($0)).map { Array($0.headerSegment) } })

  static let chain: (leaf: [UInt8], intermediate: [UInt8]) = {
    guard let segment = headers.first, let header = try? JWSHeader(segment: segment[...]),
      let intermediate = header.intermediate
    else {
      fatalError("Tests/Fuzz/Genuine/jws.txt holds no JWS")
    }
    return (header.leaf, intermediate)
  }()

  private static let texts = read("jws.txt").split(separator: UInt8(ascii: "\n")).map(Array.init)

  private static func read(_ name: String) -> [UInt8] {
    (try? Data(contentsOf: URL(filePath: "Tests/Fuzz/Genuine/\(name)"))).map(Array.init) ?? []
  }
}
