#![no_main]

use libfuzzer_sys::fuzz_target;
use reveille_model::parameters::Parameters;

// Parameters of models: refused in one line, or usable at their own load.
fuzz_target!(|text: &str| {
    match Parameters::parse(text) {
        Ok(parameters) => {
            let Parameters {
                policies,
                power,
                service,
                ..
            } = &parameters;
            let _ = reveille_model::sweep::point(policies, power, service, parameters.rate());
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
