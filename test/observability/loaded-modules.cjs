// Preloaded into a process: at its end it says which of OpenTelemetry's packages were loaded.
process.on('exit', () => {
  const loaded = Object.keys(require('node:module')._cache)
  const packages = new Set(loaded.flatMap((path) => /@opentelemetry\/[\w-]+/.exec(path) ?? []))
  process.stdout.write(`${JSON.stringify({ event: 'test.loaded', packages: [...packages].sort() })}\n`)
})
