/**
 * This package as a host has it: compiled, and installed in a folder of its own inside the clone, so that what it needs is found.
 *
 * Processes start in half the time so: there is no TypeScript to load but the host's own. So do the processes of the tests
 * themselves, which end in `-process.ts` and are compiled beside it (installed-script.ts), and the hosts of the chaos tests, with
 * the helpers that they share.
 */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const PACKAGE = fileURLToPath(new URL('../../', import.meta.url))

/** Compiles `src/` and installs it as npm would. @returns the folder that has it in its node_modules; the caller's to remove */
export function installPackage(): string {
  mkdirSync(join(PACKAGE, '.data'), { recursive: true })
  const folder = mkdtempSync(join(PACKAGE, '.data', 'installed-'))
  // A package of its own: else the name would lead to the clone around it.
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'host', type: 'module' }))
  const release = join(folder, 'node_modules', 'durable-integrations')
  compileSources(join(release, 'dist'))
  compile('test', isProcess, join(release, 'test'))
  // What these import by its path in the clone.
  compile('dev', isSource, join(release, 'dev'))
  compile('bench', (path) => path === 'memory.ts', join(release, 'bench'))
  // The stacks' host, beside the package that it imports by its name.
  compile('examples/host', (path) => isSource(path) && !path.startsWith('test/'), join(folder, 'host'))
  symlinkSync('dist', join(release, 'src'))
  const assets = 'api/dashboard/frame/assets'
  cpSync(join(PACKAGE, 'src', assets), join(release, 'dist', assets), { recursive: true })
  cpSync(join(PACKAGE, 'drizzle'), join(release, 'drizzle'), { recursive: true })
  cpSync(join(PACKAGE, 'package.json'), join(release, 'package.json'))
  linkCommands(release, join(folder, 'node_modules', '.bin'))
  bundleWorkflows(release)
  return folder
}

/** As `npm run build` does: else each worker makes a bundle of its own, which costs two seconds of a core. */
function bundleWorkflows(release: string): void {
  const command = ['dist/bin/integrations.js', 'bundle-workflows', '--out', 'dist/workflow-bundle.js']
  const env = { ...process.env, NODE_OPTIONS: '' }
  const { status, stderr } = spawnSync(process.execPath, command, { cwd: release, env, encoding: 'utf8' })
  if (status !== 0) throw new Error(`The workflows can't be bundled: ${stderr}`)
}

const isSource = (path: string): boolean => path.endsWith('.ts')
/** The hosts of the chaos tests and of the soak, and the processes of the histories, are modules of several files, which lie together. */
const isProcess = (path: string): boolean =>
  path.endsWith('-process.ts') ||
  path === 'support/providers.ts' ||
  path === 'support/subscribing-provider.ts' ||
  (/^(chaos|linearizability|soak)\//.test(path) && isSource(path) && !path.endsWith('.test.ts'))

/** As `npm run build` does, without checks and types. */
function compileSources(to: string): void {
  const compiler = join(PACKAGE, 'node_modules/typescript-7/bin/tsc')
  const options = ['--noCheck', '--declaration', 'false', '--sourceMap', 'false', '--outDir', to]
  const { status, stdout } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json', ...options], {
    cwd: PACKAGE,
    env: { ...process.env, NODE_OPTIONS: '' },
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`The sources can't be compiled: ${stdout}`)
}

/** The same for a few files that no configuration of the compiler names. */
function compile(from: string, isWanted: (path: string) => boolean, to: string): void {
  const { config } = ts.readConfigFile(join(PACKAGE, 'tsconfig.json'), ts.sys.readFile)
  const options = { ...config.compilerOptions, noEmit: false, rewriteRelativeImportExtensions: true }
  const { options: compilerOptions } = ts.convertCompilerOptionsFromJson(options, PACKAGE)
  for (const path of readdirSync(join(PACKAGE, from), { recursive: true, encoding: 'utf8' })) {
    if (!isWanted(path)) continue
    const compiled = join(to, path.replace(/\.ts$/, '.js'))
    mkdirSync(dirname(compiled), { recursive: true })
    const text = readFileSync(join(PACKAGE, from, path), 'utf8')
    // The name tells the compiler what package.json says: an ES module.
    const fileName = path.replace(/\.ts$/, '.mts')
    writeFileSync(compiled, ts.transpileModule(text, { fileName, compilerOptions }).outputText)
  }
}

/** https://docs.npmjs.com/cli/v11/configuring-npm/package-json#bin */
function linkCommands(release: string, folder: string): void {
  const { bin } = JSON.parse(readFileSync(join(release, 'package.json'), 'utf8')) as { bin: Record<string, string> }
  mkdirSync(folder)
  for (const [name, path] of Object.entries(bin)) {
    chmodSync(join(release, path), 0o755)
    symlinkSync(relative(folder, join(release, path)), join(folder, name))
  }
}
