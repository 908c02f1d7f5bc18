/** Stdout for a command's result alone. */

export interface OwnStdout {
  readonly write: (text: string) => void
  /** Resolves when all that was written has been handed over. */
  flushed(): Promise<void>
}

/**
 * From now on only the returned `write` reaches stdout; what the host's code prints (`console.log` as its module loads)
 * goes to stderr. A reader that has gone away (`integrations list | head -1`) does not stop the command.
 */
export function ownStdout(): OwnStdout {
  const write = process.stdout.write.bind(process.stdout)
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof process.stdout.write
  let isGone = false
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error
      isGone = stream === process.stdout || isGone
    })
  return {
    write: (text) => {
      if (!isGone) write(text)
    },
    flushed: () =>
      new Promise((resolve) => {
        if (isGone) resolve()
        else write('', () => resolve())
      }),
  }
}
