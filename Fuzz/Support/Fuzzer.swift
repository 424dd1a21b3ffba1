import Glibc

/// Something that reads bytes from strangers, and what is claimed of it.
public struct FuzzTarget: Sendable {
  let name: String
  let check: @Sendable ([UInt8]) -> Void

  /// - Parameters:
  ///   - name: what `scripts/fuzz` calls it.
  ///   - check: is called with one input after another, and ends the process with ``claim(_:_:)`` if a claim fails.
  public init(_ name: String, _ check: @escaping @Sendable ([UInt8]) -> Void) {
    self.name = name
    self.check = check
  }
}

/// libFuzzer, which is linked as a library: `main` is ours.
public enum Fuzzer {
  /// Set once, before libFuzzer starts, which calls back on the thread that started it and on no other.
  nonisolated(unsafe) private static var check: @Sendable ([UInt8]) -> Void = { _ in }

  /// Feeds the target that the environment's `FUZZ_TARGET` names, as the command line tells libFuzzer.
  ///
  /// The name is no argument, because libFuzzer starts itself again with the arguments that it got.
  public static func run(_ targets: [FuzzTarget]) -> Never {
    let name = getenv("FUZZ_TARGET").map { String(cString: $0) } ?? ""
    guard let target = targets.first(where: { $0.name == name }) else {
      print(targets.map(\.name).joined(separator: "\n"))
      exit(2)
    }
    check = target.check
    var count = CommandLine.argc
    var arguments = CommandLine.unsafeArgv
    exit(
      runDriver(&count, &arguments) { start, count in
        // Copied: Swift's arrays have bounds, and address sanitizer knows where a copy ends.
        Fuzzer.check(Array(UnsafeBufferPointer(start: start, count: count)))
        return 0
      })
  }
}

/// Ends the process, which is how libFuzzer learns of a finding, unless what is claimed is true.
public func claim(_ isTrue: Bool, _ claim: @autoclosure () -> String) {
  guard !isTrue else { return }
  fatalError("This does not hold: \(claim())")
}

/// `LLVMFuzzerRunDriver` of libFuzzer ("Using libFuzzer as a library").
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
  _ runOne: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt
