#include "subcommand.h"
static int run(int a,char**v){(void)a;(void)v;return 1;}
const struct subcommand cmd_extension_dir={.name="extension_dir",.arguments="",.summary="",.run=run};
