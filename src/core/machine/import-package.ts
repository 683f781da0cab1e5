/** A package that is found at run time. The name is a variable, so that bundlers leave it to the runtime. */
export async function importPackage(name: string): Promise<unknown> {
  return import(/* webpackIgnore: true */ /* @vite-ignore */ name)
}
