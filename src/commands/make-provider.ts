import { relative, sep } from 'node:path'
import type { Command } from 'commander'
import { providerIdentifier, providerParts } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'
import type { Part, ProviderNames } from './scaffold/names.ts'
import { PARTS, providerNames, USUAL_PARTS } from './scaffold/names.ts'
import { providerFile } from './scaffold/provider-file.ts'
import { testFile } from './scaffold/test-file.ts'
import { writeFiles } from './scaffold/write-files.ts'

interface Options {
  readonly dir: string
  readonly with?: readonly Part[]
  readonly force: boolean
}

/** `integrations make-provider <identifier>`: a provider that can be registered, and its tests, which pass. */
export function makeProviderCommand(frame: Frame): Command {
  return frame
    .command('make-provider', 'Writes a provider to begin with, and its tests, which pass.', [
      'integrations make-provider acme',
      'integrations make-provider acme --with oauth,sync,identity',
      'integrations make-provider acme-crm --dir app/providers --with none --json',
    ])
    .argument('<identifier>', 'what it is registered under: a-z, 0-9, "_" and "-"', providerIdentifier)
    .option('--dir <folder>', 'where to', 'src/providers')
    .option(
      '--with <parts>',
      `what it can do, of ${PARTS.join(', ')}, with commas between; or none (default: ${USUAL_PARTS.join(',')})`,
      providerParts,
    )
    .option('--force', 'overwrite what is there', false)
    .action(
      frame.actionWithoutHost(async (_, identifier: string, options: Options) => {
        const chosen = new Set(options.with ?? USUAL_PARTS)
        const parts = PARTS.filter((part) => chosen.has(part))
        const names = providerNames(identifier)
        const files = [
          { name: `${identifier}.ts`, text: providerFile(names, chosen) },
          { name: `${identifier}.test.ts`, text: testFile(names, chosen) },
        ]
        const written = await writeFiles(options.dir, files, { overwrite: options.force })
        return {
          document: { identifier, class_name: names.className, with: parts, files: written },
          text: nextSteps(names, chosen, written),
        }
      }),
    )
}

function nextSteps(names: ProviderNames, parts: ReadonlySet<Part>, [provider = '', tests = '']: string[]): string {
  const { identifier, className, label, constant } = names
  const key = /^[a-z]\w*$/.test(identifier) ? identifier : `'${identifier}'`
  const client = `{ id: process.env.${constant}_CLIENT_ID ?? '', secret: process.env.${constant}_CLIENT_SECRET }`
  return [
    'Written:',
    `  ${provider}`,
    `  ${tests}`,
    '',
    'The tests pass as they are:',
    '  npm install durable-integrations zod && npm install --save-dev vitest@4 @electric-sql/pglite',
    `  npx vitest run ${tests}`,
    `Put in what is true of ${label}: TODO says where, in both files.`,
    'Register it in integrations.config.ts:',
    `  import { ${className} } from '${moduleName(provider)}'`,
    `  providers: { ${key}: new ${className}(${parts.has('oauth') ? client : ''}) },`,
    'Store an integration of it:',
    `  integrations install ${identifier} --name <name>`,
    'How a provider is written: docs/writing-a-provider.md. How it is tested: docs/testing.md.',
  ].join('\n')
}

/**
 * As `integrations.config.ts` names it, which lies in the working directory. Not `.ts`, which compiles only where
 * `allowImportingTsExtensions` is set, and leads nowhere once it is compiled.
 */
function moduleName(path: string): string {
  const found = relative('.', path).split(sep).join('/').replace(/\.ts$/, '.js')
  return /^\.\.?\//.test(found) ? found : `./${found}`
}
