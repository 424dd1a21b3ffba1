import CoreMetrics
import Foundation
import Platform
import Synchronization

extension PrometheusRegistry {
  /// Adds the metrics of this process under the names of Prometheus's client libraries. Each scrape reads them from
  /// `/proc/self` (proc(5)). A system without it has only the CPU time and the limit of descriptors.
  public func watchProcess() {
    let metrics = ProcessMetrics(self)
    beforeRendering { metrics.update() }
  }

  /// The metrics that ``watchProcess()`` adds.
  public static let processDescriptions = [
    MetricDescription(
      .counter, "process_cpu_seconds_total", help: "Processor time that the process has used, in seconds."),
    MetricDescription(.gauge, "process_resident_memory_bytes", help: "Memory that the process has in RAM."),
    MetricDescription(.gauge, "process_virtual_memory_bytes", help: "Address space that the process has."),
    MetricDescription(.gauge, "process_open_fds", help: "Open file descriptors."),
    MetricDescription(.gauge, "process_max_fds", help: "The limit of open file descriptors."),
    MetricDescription(.gauge, "process_threads", help: "Threads."),
    MetricDescription(
      .gauge, "process_start_time_seconds", help: "When the process started, in seconds since 1970."),
  ]
}

private final class ProcessMetrics: Sendable {
  private let processorTime: CoreMetrics.FloatingPointCounter
  private let residentMemory: Meter
  private let virtualMemory: Meter
  private let openFiles: Meter
  private let maximumFiles: Meter
  private let threads: Meter
  private let startTime: Meter
  private let countedTime = Mutex(0.0)

  init(_ registry: PrometheusRegistry) {
    processorTime = FloatingPointCounter(label: "process_cpu_seconds_total", factory: registry)
    residentMemory = Meter(label: "process_resident_memory_bytes", factory: registry)
    virtualMemory = Meter(label: "process_virtual_memory_bytes", factory: registry)
    openFiles = Meter(label: "process_open_fds", factory: registry)
    maximumFiles = Meter(label: "process_max_fds", factory: registry)
    threads = Meter(label: "process_threads", factory: registry)
    startTime = Meter(label: "process_start_time_seconds", factory: registry)
  }

  func update() {
    readProcessorTime()
    openFiles.set(countOpenFiles())
    var limit = rlimit()
    if getrlimit(Platform.openFiles, &limit) == 0 {
      maximumFiles.set(Double(limit.rlim_cur))
    }
    // The second field is a name in parentheses, which may have spaces and parentheses.
    guard let stat = contents(of: "/proc/self/stat"), let name = stat.lastIndex(of: UInt8(ascii: ")")) else {
      return
    }
    let fields = stat[(name + 1)...].split(separator: UInt8(ascii: " ")).map(number)
    guard fields.count > 21 else { return }
    // Numbered from 3 on in proc_pid_stat(5).
    threads.set(fields[20 - 3])
    virtualMemory.set(fields[23 - 3])
    residentMemory.set(fields[24 - 3] * Double(sysconf(Int32(_SC_PAGESIZE))))
    if let boot = bootTime() { startTime.set(boot + fields[22 - 3] / Double(sysconf(Int32(_SC_CLK_TCK)))) }
  }

  private func readProcessorTime() {
    var usage = rusage()
    guard getrusage(Platform.ownUsage, &usage) == 0 else { return }
    let used = seconds(usage.ru_utime) + seconds(usage.ru_stime)
    let more = countedTime.withLock { counted in
      defer { counted = max(used, counted) }
      return used - counted
    }
    processorTime.increment(by: more)
  }

  private func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1_000_000 }

  /// The number of open descriptors, without the one of this function.
  private func countOpenFiles() -> Int {
    guard let folder = opendir("/proc/self/fd") else { return 0 }
    defer { closedir(folder) }
    var count = -1
    while let entry = readdir(folder) {
      if entry.pointee.d_name.0 != CChar(bitPattern: UInt8(ascii: ".")) { count += 1 }
    }
    return count
  }

  private func bootTime() -> Double? {
    guard let stat = contents(of: "/proc/stat") else { return nil }
    let line = stat.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: "btime ".utf8) }
    return line.map { number($0.dropFirst(6)) }
  }

  private func contents(of path: String) -> [UInt8]? {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16_384)
    while true {
      let count = read(file, &buffer, buffer.count)
      guard count > 0 else { return bytes }
      bytes += buffer[..<count]
    }
  }

  /// The number in the leading digits; 0 if it exceeds 64 bits.
  private func number(_ bytes: ArraySlice<UInt8>) -> Double {
    var value: UInt64 = 0
    for byte in bytes {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { break }
      let (tenfold, overflow) = value.multipliedReportingOverflow(by: 10)
      guard !overflow else { return 0 }
      value = tenfold &+ UInt64(byte - UInt8(ascii: "0"))
    }
    return Double(value)
  }
}
