import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import type { Outcome } from '../../../src/commands/cli/create-frame.ts'
import { createFrame } from '../../../src/commands/cli/create-frame.ts'
import type { CommandContext } from '../../../src/commands/command.ts'
import type { Integrations } from '../../../src/create-integrations.ts'
import { BackendUnreachable } from '../../../src/framework/errors.ts'

const DONE: Outcome = { document: { done: true }, text: 'Done.' }

interface Given {
  readonly needs?: 'host' | 'tables'
  readonly stopsItself?: true
  readonly work?: (context: CommandContext) => Promise<Outcome>
  readonly words?: readonly string[]
  readonly isInteractive?: boolean
  readonly signal?: AbortSignal
  readonly ready?: () => Promise<void>
  readonly close?: () => Promise<void>
}

/** Of the host's object a frame uses two methods. */
async function act({ work = async () => DONE, words = [], isInteractive = false, signal, ...given }: Given) {
  const calls: string[] = []
  const host = {
    ready: async () => {
      calls.push('ready')
      await given.ready?.()
    },
    close: async () => {
      calls.push('close')
      await given.close?.()
    },
  } as Integrations
  let out = ''
  let err = ''
  let exitCode = 0
  const frame = createFrame({
    load: async () => host,
    terminal: {
      out: (text) => {
        calls.push('out')
        out += text
      },
      err: (text) => {
        err += text
      },
      isInteractive,
      columns: () => 80,
      prompts: {} as never,
      sources: { environment: {}, file: () => '', stdin: async () => '' },
    },
    ...(signal === undefined ? {} : { signal }),
    onExitCode: (code) => {
      exitCode = code
    },
  })
  const command = frame.command('act', 'Acts.', ['integrations act'])
  command.action(() => {
    const noted = (context: CommandContext) => {
      calls.push('work')
      return work(context)
    }
    return frame.run(command, noted, given)
  })
  const failure: unknown = await new Command('integrations')
    .addCommand(command)
    .parseAsync(['act', ...words], { from: 'user' })
    .then(
      () => null,
      (error: unknown) => error,
    )
  return { calls, out, err, exitCode, failure }
}

describe('an action', () => {
  it('checks the host, works, closes the host, and then speaks', async () => {
    const { calls, out, exitCode } = await act({})
    expect(calls).toEqual(['ready', 'work', 'close', 'out'])
    expect({ out, exitCode }).toEqual({ out: 'Done.\n', exitCode: 0 })
  })

  it('that needs nothing is not kept from its work by Postgres', async () => {
    expect((await act({ needs: 'host' })).calls).toEqual(['work', 'close', 'out'])
  })

  it('closes the host when the check fails, and says nothing', async () => {
    const unreachable = new BackendUnreachable('Postgres', 'db:5432', { remedy: 'Start it.' })
    const { calls, failure } = await act({ ready: () => Promise.reject(unreachable) })
    expect(calls).toEqual(['ready', 'close'])
    expect(failure).toBe(unreachable)
  })

  it('closes the host when the work fails, and says nothing', async () => {
    const broken = new Error('broken')
    const { calls, failure } = await act({ work: () => Promise.reject(broken) })
    expect(calls).toEqual(['ready', 'work', 'close'])
    expect(failure).toBe(broken)
  })

  it('has no result when closing fails: there would be two documents', async () => {
    const { calls, failure } = await act({ close: () => Promise.reject(new Error('stuck')) })
    expect(calls).not.toContain('out')
    expect(failure).toMatchObject({ message: 'stuck' })
  })

  it('ends with 1 when a part failed, with its result', async () => {
    const { out, exitCode } = await act({ work: async () => ({ ...DONE, exitCode: 1 }) })
    expect({ out, exitCode }).toEqual({ out: 'Done.\n', exitCode: 1 })
  })

  it('with --json prints its document in one line, what a terminal would obey escaped', async () => {
    const document = { name: 'a\u001b\u009bb\u007f', list: [1, null] }
    const { out } = await act({ words: ['--json'], work: async () => ({ document, text: 'Not this.' }) })
    expect(out).toBe('{"name":"a\\u001b\\u009bb\\u007f","list":[1,null]}\n')
    expect(JSON.parse(out)).toEqual(document)
  })

  it('knows who asks', async () => {
    let by = ''
    await act({
      work: async (context) => {
        by = context.by
        return DONE
      },
    })
    expect(by).toMatch(/^cli:.+/)
  })

  it.each([
    ['nobody looks', false, [], ''],
    ['somebody looks', true, [], 'half done\n'],
    ['--no-interactive was given', true, ['--no-interactive'], ''],
  ])('shows progress: %s', async (_, isInteractive, words, progress) => {
    const { err } = await act({
      isInteractive,
      words,
      work: async (context) => {
        context.progress('half done')
        context.warn('look\u0007 here')
        return DONE
      },
    })
    expect(err).toBe(`${progress}look here\n`)
  })
})

describe('Ctrl-C', () => {
  it('gives the work up at once and closes the host', async () => {
    const interrupt = new AbortController()
    const { calls, failure } = await act({
      signal: interrupt.signal,
      work: () => {
        interrupt.abort()
        return new Promise(() => {})
      },
    })
    expect(calls).toEqual(['ready', 'work', 'close'])
    expect(failure).toMatchObject({ code: 'interrupted' })
  })

  it('gives work that stops itself the time to do so', async () => {
    const interrupt = new AbortController()
    const order: string[] = []
    const { failure } = await act({
      signal: interrupt.signal,
      stopsItself: true,
      work: async ({ signal }) => {
        interrupt.abort()
        expect(signal.aborted).toBe(true)
        await new Promise((resolve) => setImmediate(resolve))
        order.push('put in order')
        throw new Error('stopped')
      },
      close: async () => void order.push('closed'),
    })
    expect(order).toEqual(['put in order', 'closed'])
    expect(failure).toMatchObject({ message: 'stopped' })
  })
})
