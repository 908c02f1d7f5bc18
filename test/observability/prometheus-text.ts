/** Reads what /metrics answers, and refuses what Prometheus would refuse: https://prometheus.io/docs/instrumenting/exposition_formats/ */

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/y
const TYPES = ['counter', 'gauge', 'histogram', 'summary', 'untyped']

/** @throws for a line that is none, a series that is there twice, a metric without a type or with two */
export function readMetrics(text: string): Sample[] {
  if (!text.endsWith('\n')) throw new Error('the last line has no end')
  const types = new Map<string, string>()
  const seen = new Set<string>()
  const samples: Sample[] = []
  for (const line of text.split('\n')) {
    const [, name, type] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? []
    if (name !== undefined && type !== undefined) {
      if (types.has(name)) throw new Error(`${name} has two types`)
      if (!TYPES.includes(type)) throw new Error(`there is no type ${type}`)
      types.set(name, type)
    }
    if (line === '' || line.startsWith('#')) continue
    const sample = sampleOf(line)
    if (!types.has(sample.name) && !types.has(sample.name.replace(/_(bucket|sum|count)$/, '')))
      throw new Error(`${sample.name} has no type`)
    const series = `${sample.name}${JSON.stringify(Object.entries(sample.labels).sort())}`
    if (seen.has(series)) throw new Error(`${series} is there twice`)
    seen.add(series)
    samples.push(sample)
  }
  return samples
}

function sampleOf(line: string): Sample {
  const [, name, labelled = '', given] = SAMPLE.exec(line) ?? []
  if (name === undefined || given === undefined) throw new Error(`no sample: ${line}`)
  const labels: Record<string, string> = {}
  for (LABEL.lastIndex = 0; LABEL.lastIndex < labelled.length; ) {
    const at = LABEL.lastIndex
    const [, label, value] = LABEL.exec(labelled) ?? []
    if (label === undefined || value === undefined || LABEL.lastIndex <= at) throw new Error(`no labels: ${line}`)
    labels[label] = value
  }
  const value = given === '+Inf' ? Number.POSITIVE_INFINITY : Number(given)
  // Go, and so Prometheus, reads it in any case: https://pkg.go.dev/strconv#ParseFloat
  if (Number.isNaN(value) && !/^nan$/i.test(given)) throw new Error(`no number: ${line}`)
  return { name, labels, value }
}

/** The sum by the values of one label, all others together; without a label under ''. Values of 0 are left out. */
export function sumsBy(samples: readonly Sample[], name: string, label = ''): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const sample of samples)
    if (sample.name === `integrations_${name}` && sample.value !== 0) {
      const key = sample.labels[label] ?? ''
      sums[key] = (sums[key] ?? 0) + sample.value
    }
  return sums
}
