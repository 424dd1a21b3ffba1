import Foundation

/// A parser of untrusted bytes, with claims about its result.
public struct FuzzTarget: Sendable {
  let name: String
  let check: @Sendable ([UInt8]) -> Void

  /// - Parameters:
  ///   - name: the name for `scripts/harness/fuzz`.
  ///   - check: called for each input; ends the process with ``claim(_:_:)`` if a claim fails.
  public init(_ name: String, _ check: @escaping @Sendable ([UInt8]) -> Void) {
    self.name = name
    self.check = check
  }
}

/// libFuzzer, linked as a library, so that this package has its own `main`.
public enum Fuzzer {
  /// Set once before libFuzzer starts. libFuzzer calls back only on the thread that started it.
  nonisolated(unsafe) private static var check: @Sendable ([UInt8]) -> Void = { _ in }

  /// Runs libFuzzer with the target in the environment variable `FUZZ_TARGET`.
  ///
  /// The name is not an argument, because libFuzzer starts child processes with its own arguments.
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
        // The copy lets Swift's bounds checks and address sanitizer detect reads beyond the input.
        Fuzzer.check(Array(UnsafeBufferPointer(start: start, count: count)))
        return 0
      })
  }
}

/// Ends the process, which libFuzzer reports as a finding, unless the claim is true.
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
