/** The steps of a start, each with its time; what takes long says how it is getting on. */
export interface Checklist {
  step<T>(name: string, work: (progress: (line: string) => void) => Promise<T>): Promise<T>
}

export function createChecklist(print: (line: string) => void): Checklist {
  return {
    async step(name, work) {
      const startedAt = performance.now()
      const seconds = (): string => `${((performance.now() - startedAt) / 1_000).toFixed(1)} s`
      try {
        const result = await work((line) => print(`  …  ${name}: ${line}`))
        print(`  ✓  ${name.padEnd(34)} ${seconds()}`)
        return result
      } catch (error) {
        print(`  ✗  ${name.padEnd(34)} ${seconds()}`)
        throw error
      }
    },
  }
}
