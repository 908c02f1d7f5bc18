/** The reference of one version: TypeDoc reads the docstrings of each entry of the package, and writes a page for each name. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TypeDocOptions } from 'typedoc'
import { Application } from 'typedoc'
import type { PluginOptions } from 'typedoc-plugin-markdown'
import { entriesOf } from './entries.ts'
import { siteFolders } from './folders.ts'
import type { ReferenceVersion } from './versions.ts'

/**
 * Writes `/reference/<folder>/`. A tag does not move, so its reference is made once and kept beside the site.
 *
 * @param pages folder that VitePress reads
 */
export async function writeReference(root: string, pages: string, version: ReferenceVersion): Promise<void> {
  const target = join(pages, 'reference', version.folder)
  if (version.tag === null) return typedoc(root, target)
  const kept = join(siteFolders(root).references, version.tag)
  if (!existsSync(kept)) {
    const sources = join(siteFolders(root).references, `sources-${version.tag}`)
    unpack(root, version.tag, sources)
    // Under another name until it is whole: a build that was interrupted leaves nothing that the next one would take.
    await typedoc(sources, `${kept}.part`)
    hideFromSearch(`${kept}.part`)
    renameSync(`${kept}.part`, kept)
    rmSync(sources, { recursive: true })
  }
  cpSync(kept, target, { recursive: true })
}

/** Below this repository, so that the sources find the packages of its node_modules. */
function unpack(root: string, tag: string, folder: string): void {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const archive = execFileSync('git', ['archive', tag, 'src', 'package.json', 'tsconfig.json'], {
    cwd: root,
    maxBuffer: 256 * 1_048_576,
  })
  execFileSync('tar', ['-x', '-C', folder], { input: archive })
}

async function typedoc(sources: string, out: string): Promise<void> {
  const options: Partial<TypeDocOptions & PluginOptions> = {
    plugin: ['typedoc-plugin-markdown'],
    entryPoints: entriesOf(sources).map(({ source }) => join(sources, source)),
    tsconfig: join(sources, 'tsconfig.json'),
    out,
    readme: 'none',
    disableSources: true,
    // `npm run check` has checked them; those of a tag meet the packages of today.
    skipErrorChecking: true,
    // The house tests say which types must be exported: test/house/public-surface.test.ts.
    validation: false,
    logLevel: 'Error',
    hidePageHeader: true,
    entryFileName: 'index.md',
    parametersFormat: 'table',
    interfacePropertiesFormat: 'table',
    typeDeclarationFormat: 'table',
  }
  const application = await Application.bootstrapWithPlugins(options)
  const project = await application.convert()
  if (project === undefined) throw new Error(`TypeDoc read no entry of ${sources}`)
  // By the name that a host imports, in place of the file's.
  for (const { name, source } of entriesOf(sources)) {
    const file = source.replace(/^[.]\/src\//, '').replace(/(\/index)?[.]ts$/, '')
    const module = project.children?.find((child) => child.name === file)
    if (module === undefined) throw new Error(`TypeDoc has no module for ${source}, the entry ${name}`)
    module.name = name
  }
  await application.generateOutputs(project)
  if (application.logger.hasErrors()) throw new Error(`TypeDoc reported errors for ${sources}`)
}

/** The search finds the present version only: each name would stand there once a release. */
function hideFromSearch(folder: string): void {
  for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!path.endsWith('.md')) continue
    const page = join(folder, path)
    writeFileSync(page, `---\nsearch: false\n---\n\n${readFileSync(page, 'utf8')}`)
  }
}
